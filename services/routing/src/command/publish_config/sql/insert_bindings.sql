-- routing.insert_bindings
INSERT INTO weir.binding (tenant_id, binding_id, scope_id, name)
SELECT $1, u.binding_id, u.scope_id, u.name
  FROM unnest($2::int4[], $3::int4[], $4::text[]) AS u(binding_id, scope_id, name)
