-- routing.select_asked: waits whose check is asked for, of every tenant, those after a Work first: what cannot be
-- decided yet holds up nobody.
WITH RECURSIVE t AS (
    (SELECT tenant_id FROM weir.wait WHERE state = 1 AND asked > checked ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id
      FROM t
     CROSS JOIN LATERAL (SELECT tenant_id
                           FROM weir.wait
                          WHERE state = 1 AND asked > checked AND tenant_id > t.tenant_id
                          ORDER BY tenant_id
                          LIMIT 1) n
)
SELECT t.tenant_id, w.work_id, v.scope_id
  FROM t
 CROSS JOIN LATERAL ((SELECT work_id
                        FROM weir.wait
                       WHERE tenant_id = t.tenant_id AND work_id > $2 AND state = 1 AND asked > checked
                       ORDER BY work_id, n
                       LIMIT $1)
                     UNION ALL
                     (SELECT work_id
                        FROM weir.wait
                       WHERE tenant_id = t.tenant_id AND work_id <= $2 AND state = 1 AND asked > checked
                       ORDER BY work_id, n
                       LIMIT $1)
                     LIMIT $1) w
 CROSS JOIN LATERAL (SELECT scope_id
                       FROM weir.work
                      WHERE tenant_id = t.tenant_id AND work_id = w.work_id AND state = 3
                      LIMIT 1) v
