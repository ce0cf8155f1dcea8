-- routing.insert_limits: the causal limits of each scope, resolved for those who read no documents.
INSERT INTO weir.scope_limits (tenant_id, generation, scope_id, max_depth, per_minute, brake_after)
SELECT $1, $2, u.scope_id, u.max_depth, u.per_minute, u.brake_after
  FROM unnest($3::int4[], $4::int2[], $5::int4[], $6::int4[]) AS u(scope_id, max_depth, per_minute, brake_after)
