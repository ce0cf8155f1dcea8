-- routing.insert_routes
INSERT INTO weir.route (tenant_id, route_id, scope_id, slot)
SELECT $1, u.route_id, u.scope_id, u.slot
  FROM unnest($2::int4[], $3::int4[], $4::text[]) AS u(route_id, scope_id, slot)
