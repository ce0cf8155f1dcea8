-- work.queue_input
-- $1 tenant, $2 work, $3 uid, $4 seq, $5 accepted at, $6 bytes, $7 binding, $8 whether it needs a ready
-- row, $9 lane priority
WITH place AS MATERIALIZED (
    SELECT nextval('weir.ready_pos') AS pos
    WHERE $8::bool
), moved AS (
    UPDATE weir.work AS w
    SET last_input = w.last_input + 1, revision = w.revision + 1,
        binding_id = CASE WHEN $8 THEN $7::int4 ELSE w.binding_id END,
        queue_pos = coalesce((SELECT place.pos FROM place), w.queue_pos)
    WHERE w.tenant_id = $1 AND w.work_id = $2
    RETURNING w.last_input, w.epoch, w.attempts, w.tries
), queued AS (
    INSERT INTO weir.ready (tenant_id, binding_id, priority, pos, work_id, epoch, attempt, tries, input_from, input_to)
    SELECT $1, $7, $9, place.pos, $2, moved.epoch, moved.attempts, moved.tries, moved.last_input, moved.last_input - 1
    FROM place, moved
)
INSERT INTO weir.input (tenant_id, work_id, n, uid, seq, accepted_at, bytes, binding_id)
SELECT $1, $2, moved.last_input, $3, $4, $5, $6, $7
FROM moved
RETURNING n
