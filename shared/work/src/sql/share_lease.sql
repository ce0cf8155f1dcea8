-- work.share_lease
-- $1 tenant, $2 work. The clock is read above the lock, so after any wait for it.
SELECT w.scope_id, weir.clock() AS at,
       r.binding_id, r.priority, r.pos, r.work_id, r.epoch, r.attempt, r.tries, r.capabilities, r.owner,
       NULLIF(r.lease_until, '-infinity') AS lease_until, NULLIF(r.claimed_at, '-infinity') AS claimed_at,
       r.generation, r.registration, r.digest, r.trigger_uid, r.bridge_n, r.input_from, r.input_to
FROM weir.work AS w
LEFT JOIN LATERAL (
    SELECT *
    FROM weir.ready AS l
    WHERE l.tenant_id = w.tenant_id AND l.binding_id = w.binding_id AND l.priority = -w.priority
      AND l.pos = w.queue_pos
    LIMIT 1
    FOR SHARE
) AS r ON true
WHERE w.tenant_id = $1 AND w.work_id = $2
