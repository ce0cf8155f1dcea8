-- routing.newest_generations: of the tenants that are loaded, and of some that are not.
(SELECT tenant_id, name, generation
   FROM weir.tenant
  WHERE tenant_id = ANY ($1::int8[]) AND generation > 0)
UNION ALL
(SELECT tenant_id, name, generation
   FROM weir.tenant
  WHERE tenant_id <> ALL ($1::int8[]) AND generation > 0
  ORDER BY tenant_id
  LIMIT $2)
