-- work.lock_ready
-- The clock is read above the lock, so after any wait for it.
-- $1 tenant, $2 bindings, $3 priorities, $4 positions, in the order of the works
SELECT weir.clock() AS at,
       r.binding_id, r.priority, r.pos, r.work_id, r.epoch, r.attempt, r.tries, r.capabilities, r.owner,
       NULLIF(r.lease_until, '-infinity') AS lease_until, NULLIF(r.claimed_at, '-infinity') AS claimed_at,
       r.generation, r.registration, r.digest, r.trigger_uid, r.bridge_n, r.input_from, r.input_to
FROM unnest($2::int4[], $3::int2[], $4::int8[]) AS u (binding_id, priority, pos)
CROSS JOIN LATERAL (
    SELECT *
    FROM weir.ready AS l
    WHERE l.tenant_id = $1 AND l.binding_id = u.binding_id AND l.priority = u.priority AND l.pos = u.pos
    LIMIT 1
    FOR NO KEY UPDATE
) AS r
