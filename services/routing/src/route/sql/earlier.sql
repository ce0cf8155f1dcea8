-- routing.earlier: undecided events that carry these keys, oldest first; conflicting ones stand aside (r05).
SELECT u.key, p.seq
  FROM unnest($3::text[]) AS u(key)
 CROSS JOIN LATERAL (SELECT seq
                       FROM weir.pending_key
                      WHERE tenant_id = $1 AND scope_id = $2 AND key = u.key
                      ORDER BY seq
                      LIMIT 1000) k
 CROSS JOIN LATERAL (SELECT seq
                       FROM weir.pending
                      WHERE tenant_id = $1 AND scope_id = $2 AND seq = k.seq AND state <> 4
                      LIMIT 1) p
