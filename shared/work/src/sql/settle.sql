-- work.settle
-- $1 tenant, $2 work, $3 binding, $4 priority and $5 pos of its ready row (NULL: none), $6 binding of its
-- next input (NULL: not to be queued), $7 state, $8 epoch, $9 attempts, $10 tries, $11 consumed,
-- $12 held reason, $13 ended at, $14 bridge and $15 trigger that its ready row goes on with (NULL: none). An ended
-- Work loses what it owns. Returns how many waits were open, and whether others wait for the end.
WITH gone AS (
    DELETE FROM weir.ready
    WHERE tenant_id = $1 AND binding_id = $3::int4 AND priority = $4::int2 AND pos = $5::int8
), place AS MATERIALIZED (
    SELECT nextval('weir.ready_pos') AS pos
    WHERE $6::int4 IS NOT NULL
), queued AS (
    INSERT INTO weir.ready (tenant_id, binding_id, priority, pos, work_id, epoch, attempt, tries, trigger_uid, bridge_n,
                            input_from, input_to)
    SELECT $1, $6, $4, place.pos, $2, $8, $9, $10, coalesce($15::uuid, '00000000-0000-0000-0000-000000000000'),
           coalesce($14::int8, 0), $11 + 1, $11
    FROM place
), moved AS (
    UPDATE weir.work
    SET state = $7, revision = revision + 1, binding_id = coalesce($6, binding_id),
        queue_pos = (SELECT place.pos FROM place), epoch = $8, attempts = $9, tries = $10, consumed = $11,
        held_reason = $12, ended_at = $13
    WHERE tenant_id = $1 AND work_id = $2
), timers AS (
    DELETE FROM weir.timer
    WHERE tenant_id = $1 AND work_id = $2 AND $7::int2 >= 5
), intents AS (
    UPDATE weir.intent
    SET state = 4
    WHERE tenant_id = $1 AND work_id = $2 AND state IN (1, 2) AND $7::int2 >= 5
), waits AS (
    UPDATE weir.wait
    SET state = 4
    WHERE tenant_id = $1 AND work_id = $2 AND state = 1 AND $7::int2 >= 5
    RETURNING 1
)
SELECT (SELECT count(*) FROM waits) AS waits,
       EXISTS (
           SELECT
           FROM weir.wait_sub AS s
           WHERE s.tenant_id = $1 AND s.ended_work = $2 AND $7::int2 >= 5) AS watched
