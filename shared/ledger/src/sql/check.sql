-- ledger.check: the scope's head and the time, under the order lock, in a snapshot of its own.
SELECT coalesce(h.last_seq, 0) AS last_seq,
       greatest(weir.clock(), coalesce(h.last_at, '-infinity')) AS at,
       t.generation
  FROM weir.tenant t
  LEFT JOIN LATERAL (SELECT last_seq, last_at
                       FROM weir.scope_head
                      WHERE tenant_id = $1 AND scope_id = $2
                      ORDER BY first_seq DESC
                      LIMIT 1) h ON true
 WHERE t.tenant_id = $1
