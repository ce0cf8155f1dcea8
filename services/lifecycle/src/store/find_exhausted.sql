-- lifecycle.find_exhausted
-- $1 tenant, $2 most. Without locks: the command looks again under them.
SELECT r.work_id, r.epoch
FROM weir.tenant AS t
JOIN weir.binding_settings AS x ON x.tenant_id = t.tenant_id AND x.generation = t.generation
CROSS JOIN LATERAL (
    SELECT y.work_id, y.epoch
    FROM weir.ready AS y
    WHERE y.tenant_id = $1 AND y.binding_id = x.binding_id AND y.tries >= x.max_attempts
      AND y.lease_until <= weir.clock()
    ORDER BY y.priority, y.pos
    LIMIT $2
) AS r
WHERE t.tenant_id = $1
LIMIT $2
