-- lifecycle.list_queued_lanes
-- $1 tenant, $2 bindings: a skip scan of the primary key, one probe a lane that has rows
SELECT u.binding_id, l.priority
FROM unnest($2::int4[]) AS u (binding_id)
CROSS JOIN LATERAL (
    WITH RECURSIVE lane AS (
        (SELECT r.priority
         FROM weir.ready AS r
         WHERE r.tenant_id = $1 AND r.binding_id = u.binding_id
         ORDER BY r.priority
         LIMIT 1)
        UNION ALL
        SELECT (
            SELECT r.priority
            FROM weir.ready AS r
            WHERE r.tenant_id = $1 AND r.binding_id = u.binding_id AND r.priority > lane.priority
            ORDER BY r.priority
            LIMIT 1)
        FROM lane
        WHERE lane.priority IS NOT NULL
    )
    SELECT lane.priority FROM lane WHERE lane.priority IS NOT NULL
) AS l
