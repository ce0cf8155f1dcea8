-- routing.subscribed: waiting Works with a subscription to events of a scope.
SELECT DISTINCT s.work_id, w.scope_id, n.name
  FROM (SELECT work_id
          FROM weir.wait_sub
         WHERE tenant_id = $1 AND scope_id = $2 AND kind = 2
         LIMIT $3) s
 CROSS JOIN LATERAL (SELECT scope_id
                       FROM weir.work
                      WHERE tenant_id = $1 AND work_id = s.work_id AND state = 3
                      LIMIT 1) w
 CROSS JOIN LATERAL (SELECT name
                       FROM weir.scope
                      WHERE tenant_id = $1 AND scope_id = w.scope_id
                      LIMIT 1) n
