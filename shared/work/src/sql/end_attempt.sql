-- work.end_attempt
-- $1 tenant, $2 work, $3 number, $4 epoch; $5 to $21 the attempt's columns in order; $22 scope, $23 number of its
-- bridge or 0, $24 inputs consumed before it.
-- Its open intents are void with it, and the events deferred to it are due (see free_deferred.sql). The bridge and
-- its winner are taken by an attempt that completed (1) or parked (6).
WITH bridge AS (
    UPDATE weir.input
    SET taken_by = $3
    WHERE tenant_id = $1 AND work_id = $2 AND n > $24::int8 AND taken_by = 0 AND $23::int8 > 0 AND $14::int2 IN (1, 6)
), void AS (
    UPDATE weir.intent
    SET state = 4
    WHERE tenant_id = $1 AND work_id = $2 AND epoch = $4 AND state IN (1, 2)
), held AS MATERIALIZED (
    SELECT p.at
    FROM weir.pending_key AS k
    CROSS JOIN LATERAL (
        SELECT l.ctid AS at
        FROM weir.pending AS l
        WHERE l.tenant_id = $1 AND l.scope_id = $22 AND l.seq = k.seq AND l.state = 3 AND l.hold_work = $2
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS p
    WHERE k.tenant_id = $1 AND k.scope_id = $22 AND k.key = chr(1) || $2::uuid::text
), freed AS (
    UPDATE weir.pending AS p
    SET state = 1, hold_reason = NULL, hold_work = NULL, hold_attempt = NULL, next_try = '-infinity'
    FROM held
    WHERE p.ctid = held.at
)
INSERT INTO weir.attempt (
    tenant_id, work_id, number, epoch, owner, binding_id, generation, registration, capabilities, digest,
    trigger_uid, claimed_at, ended_at, outcome, input_from, input_to, content, answer_state, answer_at,
    result, error)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
