-- lifecycle.list_attempts
-- $1 tenant, $2 work, $3 number after which the page starts, $4 most. The started one comes from the queue.
SELECT a.number, a.epoch, a.owner, b.name AS binding, a.generation, a.registration, a.capabilities, a.trigger_uid,
       a.claimed_at, a.ended_at, a.outcome, a.lease_until, a.result, a.error
FROM (
    SELECT x.number, x.epoch, x.owner, x.binding_id, x.generation, x.registration, x.capabilities, x.trigger_uid,
           x.claimed_at, x.ended_at, x.outcome, NULL::timestamptz AS lease_until, x.result, x.error
    FROM weir.attempt AS x
    WHERE x.tenant_id = $1 AND x.work_id = $2 AND x.number > $3
    UNION ALL
    SELECT r.attempt, r.epoch, r.owner, r.binding_id, r.generation, r.registration, r.capabilities, r.trigger_uid,
           r.claimed_at, NULL, NULL, r.lease_until, NULL, NULL
    FROM weir.work AS w
    CROSS JOIN LATERAL (
        SELECT *
        FROM weir.ready AS y
        WHERE y.tenant_id = $1 AND y.binding_id = w.binding_id AND y.priority = -w.priority AND y.pos = w.queue_pos
        LIMIT 1
    ) AS r
    WHERE w.tenant_id = $1 AND w.work_id = $2 AND r.owner <> '' AND r.attempt > $3
) AS a
LEFT JOIN weir.binding AS b ON b.tenant_id = $1 AND b.binding_id = a.binding_id
ORDER BY a.number
LIMIT $4
