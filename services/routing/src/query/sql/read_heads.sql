-- routing.read_heads: the last position of each scope, or of one.
SELECT s.scope_id, h.last_seq, h.last_at
  FROM weir.scope AS s
 CROSS JOIN LATERAL (SELECT last_seq, last_at
                       FROM weir.scope_head
                      WHERE tenant_id = $1 AND scope_id = s.scope_id
                      ORDER BY first_seq DESC
                      LIMIT 1) AS h
 WHERE s.tenant_id = $1
   AND ($2::int4 IS NULL OR s.scope_id = $2)
 ORDER BY s.scope_id
