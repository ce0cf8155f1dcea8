-- routing.select_behind: waits with a subscription that did not see the newest events of its scope. One index
-- probe a scope that has subscriptions, and one a wait that is behind.
WITH RECURSIVE s AS (
    (SELECT tenant_id, scope_id FROM weir.wait_sub WHERE kind = 2 ORDER BY tenant_id, scope_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.scope_id
      FROM s
     CROSS JOIN LATERAL (SELECT tenant_id, scope_id
                           FROM weir.wait_sub x
                          WHERE kind = 2 AND (x.tenant_id, x.scope_id) > (s.tenant_id, s.scope_id)
                          ORDER BY tenant_id, scope_id
                          LIMIT 1) n
)
SELECT DISTINCT s.tenant_id, b.work_id, v.scope_id
  FROM s
 CROSS JOIN LATERAL (SELECT last_seq
                       FROM weir.scope_head
                      WHERE tenant_id = s.tenant_id AND scope_id = s.scope_id
                      ORDER BY first_seq DESC
                      LIMIT 1) h
 CROSS JOIN LATERAL (SELECT work_id
                       FROM weir.wait_sub
                      WHERE tenant_id = s.tenant_id AND scope_id = s.scope_id AND kind = 2 AND seen_seq < h.last_seq
                      ORDER BY seen_seq
                      LIMIT $1) b
 CROSS JOIN LATERAL (SELECT scope_id
                       FROM weir.work
                      WHERE tenant_id = s.tenant_id AND work_id = b.work_id AND state = 3
                      LIMIT 1) v
