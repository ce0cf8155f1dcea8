-- routing.earlier: undecided events that carry these keys, oldest first; conflicting ones stand aside (r05).
SELECT u.key, p.seq
  FROM unnest($3::text[]) AS u(key)
 CROSS JOIN LATERAL (SELECT k.seq
                       FROM weir.pending_key k
                       JOIN weir.pending p
                         ON p.tenant_id = k.tenant_id AND p.scope_id = k.scope_id AND p.seq = k.seq
                      WHERE k.tenant_id = $1 AND k.scope_id = $2 AND k.key = u.key AND p.state <> 4
                      ORDER BY k.seq
                      LIMIT 1000) p
