-- lifecycle.read_lanes
-- $1 tenant, $2 binding's name, $3 scope's name or NULL. Under the configuration lock.
SELECT t.generation, b.binding_id, s.name AS scope, x.executor, x.capabilities,
       (extract(epoch FROM x.lease) * 1000)::int8 AS lease_ms, x.max_attempts, x.settings,
       r.revision, r.capabilities AS proved
FROM weir.tenant AS t
JOIN weir.binding AS b ON b.tenant_id = t.tenant_id AND b.name = $2
JOIN weir.scope AS s
    ON s.tenant_id = t.tenant_id AND s.scope_id = b.scope_id AND s.generation = t.generation
JOIN weir.binding_settings AS x
    ON x.tenant_id = t.tenant_id AND x.generation = t.generation AND x.binding_id = b.binding_id
LEFT JOIN LATERAL (
    SELECT e.revision, e.capabilities
    FROM weir.executor_registration AS e
    WHERE e.tenant_id = t.tenant_id AND e.executor = x.executor
    ORDER BY e.revision DESC
    LIMIT 1
) AS r ON true
WHERE t.tenant_id = $1 AND ($3::text IS NULL OR s.name = $3)
ORDER BY b.binding_id
