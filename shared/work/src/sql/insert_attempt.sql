-- work.insert_attempt
-- $1 tenant, $2 work, $3 number, $4 epoch; the rest in column order. Its open intents are void with it.
WITH void AS (
    UPDATE weir.intent
    SET state = 4
    WHERE tenant_id = $1 AND work_id = $2 AND epoch = $4 AND state IN (1, 2)
)
INSERT INTO weir.attempt (
    tenant_id, work_id, number, epoch, owner, binding_id, generation, registration, capabilities, digest,
    trigger_uid, claimed_at, ended_at, outcome, input_from, input_to, content, answer_state, answer_at,
    result, error)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
