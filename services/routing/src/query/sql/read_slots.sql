-- routing.read_slots
SELECT r.route_id, r.slot
  FROM unnest($2::int4[]) AS u(route_id)
 CROSS JOIN LATERAL (SELECT route_id, slot
                       FROM weir.route
                      WHERE tenant_id = $1 AND route_id = u.route_id
                      LIMIT 1) AS r
