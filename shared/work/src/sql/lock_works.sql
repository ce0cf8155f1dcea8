-- work.lock_works
-- $1 tenant, $2 sorted work ids
SELECT w.work_id, w.scope_id, w.state, w.revision, w.binding_id, w.created_binding,
       w.rebound_after, w.priority, w.queue_pos, w.epoch, w.attempts, w.tries, w.last_input, w.consumed,
       w.held_reason, w.parent_id, w.predecessor_id, w.created_at, w.ended_at
FROM unnest($2::uuid[]) AS u (work_id)
CROSS JOIN LATERAL (
    SELECT *
    FROM weir.work AS l
    WHERE l.tenant_id = $1 AND l.work_id = u.work_id
    LIMIT 1
    FOR NO KEY UPDATE
) AS w
