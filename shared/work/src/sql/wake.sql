-- work.wake
-- $1 tenant, $2 work, locked and waiting; $3 wait, $4 its new state, $5 winner or NULL; the bridge: $6 uid, $7 seq,
-- $8 accepted at, $9 bytes, $10 binding; $11 lane priority; the winner when it is the Work's own and not queued yet:
-- $12 uid, $13 seq, $14 accepted at, $15 bytes. No row when the wait is not open.
-- The bridge's size is its own and its winner's: what it costs to present them.
WITH won AS (
    UPDATE weir.wait
    SET state = $4, winner_uid = $5, bridge_uid = $6, refusal = NULL, checked = asked
    WHERE tenant_id = $1 AND work_id = $2 AND n = $3 AND state = 1
    RETURNING 1
), place AS MATERIALIZED (
    SELECT nextval('weir.ready_pos') AS pos
    FROM won
), moved AS (
    UPDATE weir.work AS w
    SET state = 1, revision = w.revision + 1, binding_id = $10, queue_pos = place.pos,
        last_input = w.last_input + 1 + ($12::uuid IS NOT NULL)::int
    FROM place
    WHERE w.tenant_id = $1 AND w.work_id = $2
    RETURNING w.last_input, w.epoch, w.attempts, w.tries, w.consumed
), own AS (
    INSERT INTO weir.input (tenant_id, work_id, n, uid, seq, accepted_at, bytes, binding_id, taken_by)
    SELECT $1, $2, moved.last_input - 1, $12, $13, $14, $15, $10, 0
    FROM moved
    WHERE $12::uuid IS NOT NULL
), bound AS (
    UPDATE weir.input AS i
    SET taken_by = 0
    FROM moved
    WHERE i.tenant_id = $1 AND i.work_id = $2 AND i.n > moved.consumed AND i.uid = $5 AND i.taken_by IS NULL
), bridge AS (
    INSERT INTO weir.input (tenant_id, work_id, n, uid, seq, accepted_at, bytes, binding_id, taken_by)
    SELECT $1, $2, moved.last_input, $6, $7, $8,
           $9 + coalesce($15, (
               SELECT octet_length(b.payload)
               FROM weir.event AS e
               CROSS JOIN LATERAL (
                   SELECT x.payload
                   FROM weir.event_body AS x
                   WHERE x.tenant_id = $1 AND x.scope_id = e.scope_id AND x.accepted_at = e.accepted_at AND x.seq = e.seq
                   LIMIT 1
               ) AS b
               WHERE e.tenant_id = $1 AND e.uid = $5), 0),
           $10, 0
    FROM moved
), queued AS (
    INSERT INTO weir.ready (tenant_id, binding_id, priority, pos, work_id, epoch, attempt, tries, trigger_uid, bridge_n,
                            input_from, input_to)
    SELECT $1, $10, $11, place.pos, $2, moved.epoch, moved.attempts, moved.tries, $6, moved.last_input,
           moved.consumed + 1, moved.consumed
    FROM place, moved
), gone AS (
    DELETE FROM weir.wait_sub AS s
    USING won
    WHERE s.tenant_id = $1 AND s.work_id = $2 AND s.n = $3
)
SELECT place.pos, moved.last_input
FROM place, moved
