-- routing.own_unrouted: the first accepted event of a Work that is unrouted; conflicting and braked ones stand aside.
SELECT p.uid, p.accepted_at
  FROM weir.pending_key k
 CROSS JOIN LATERAL (SELECT uid, accepted_at
                       FROM weir.pending
                      WHERE tenant_id = $1 AND scope_id = $2 AND seq = k.seq AND state NOT IN (4, 5)
                      LIMIT 1) p
 WHERE k.tenant_id = $1 AND k.scope_id = $2 AND k.key = $3
 ORDER BY k.seq
 LIMIT 1
