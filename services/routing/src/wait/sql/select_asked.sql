-- routing.select_asked: waits whose check is asked for.
SELECT v.tenant_id, v.work_id, v.scope_id
  FROM (SELECT tenant_id, work_id FROM weir.wait WHERE state = 1 AND asked > checked LIMIT $1) w
 CROSS JOIN LATERAL (SELECT tenant_id, work_id, scope_id
                       FROM weir.work
                      WHERE tenant_id = w.tenant_id AND work_id = w.work_id AND state = 3
                      LIMIT 1) v
