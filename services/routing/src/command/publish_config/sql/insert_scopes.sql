-- routing.insert_scopes
INSERT INTO weir.scope (tenant_id, scope_id, name, generation)
SELECT $1, u.scope_id, u.name, $2
  FROM unnest($3::int4[], $4::text[]) AS u(scope_id, name)
