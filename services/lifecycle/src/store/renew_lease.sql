-- lifecycle.renew_lease
-- $1 tenant, $2 work, $3 attempt, $4 epoch, $5 ms or NULL for the claimed duration.
-- One HOT update of the ready row. No row: no such Work. NULL: the lease does not hold.
WITH work AS MATERIALIZED (
    SELECT w.binding_id, -w.priority AS priority, w.queue_pos
    FROM weir.work AS w
    WHERE w.tenant_id = $1 AND w.work_id = $2
), renewed AS (
    UPDATE weir.ready AS r
    SET lease_until = weir.clock() + coalesce($5::int8 * interval '1 millisecond', r.lease)
    FROM work
    WHERE r.tenant_id = $1 AND r.binding_id = work.binding_id AND r.priority = work.priority
      AND r.pos = work.queue_pos AND r.work_id = $2 AND r.attempt = $3 AND r.epoch = $4 AND r.owner <> ''
      AND r.lease_until > weir.clock()
    RETURNING r.lease_until
)
SELECT (SELECT renewed.lease_until FROM renewed) AS lease_until
FROM work
