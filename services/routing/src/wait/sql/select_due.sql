-- routing.select_due: waits that timed out, of Works that still wait.
WITH RECURSIVE t AS (
    (SELECT tenant_id FROM weir.wait WHERE state = 1 AND due_at IS NOT NULL ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id
      FROM t
     CROSS JOIN LATERAL (SELECT tenant_id
                           FROM weir.wait
                          WHERE state = 1 AND due_at IS NOT NULL AND tenant_id > t.tenant_id
                          ORDER BY tenant_id
                          LIMIT 1) n
)
SELECT t.tenant_id, d.work_id, d.scope_id
  FROM t
 CROSS JOIN LATERAL (SELECT w.work_id, v.scope_id
                       FROM weir.wait w
                      CROSS JOIN LATERAL (SELECT scope_id
                                            FROM weir.work
                                           WHERE tenant_id = t.tenant_id AND work_id = w.work_id AND state = 3
                                           LIMIT 1) v
                      WHERE w.tenant_id = t.tenant_id AND w.state = 1 AND w.due_at <= $2
                      ORDER BY w.due_at
                      LIMIT $1) d
