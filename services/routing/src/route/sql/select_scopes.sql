-- routing.select_scopes: scopes with undecided events, one index probe each.
WITH RECURSIVE s AS (
    (SELECT tenant_id, scope_id FROM weir.pending ORDER BY tenant_id, scope_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.scope_id
      FROM s
     CROSS JOIN LATERAL (SELECT tenant_id, scope_id
                           FROM weir.pending p
                          WHERE (p.tenant_id, p.scope_id) > (s.tenant_id, s.scope_id)
                          ORDER BY tenant_id, scope_id
                          LIMIT 1) n
)
SELECT tenant_id, scope_id FROM s
