-- routing.insert_settings: each scope's effective bindings, resolved for those who read no documents.
INSERT INTO weir.binding_settings (tenant_id, generation, binding_id, executor, capabilities, lease,
                                   max_attempts, priority, settings)
SELECT $1, $2, u.binding_id, u.executor, u.capabilities, u.lease_micros * interval '1 microsecond',
       u.max_attempts, u.priority, u.settings
  FROM unnest($3::int4[], $4::text[], $5::int2[], $6::int8[], $7::int2[], $8::int2[], $9::text[])
       AS u(binding_id, executor, capabilities, lease_micros, max_attempts, priority, settings)
