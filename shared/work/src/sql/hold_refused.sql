-- work.hold_refused
-- $1 tenant, $2 work, locked and waiting; $3 wait, $4 refusal, $5 reason. Subscriptions see everything as seen while
-- the Work is held; its release puts them back.
WITH refused AS (
    UPDATE weir.wait
    SET refusal = $4, checked = asked
    WHERE tenant_id = $1 AND work_id = $2 AND n = $3 AND state = 1
    RETURNING 1
), asleep AS (
    UPDATE weir.wait_sub AS s
    SET seen_seq = 9223372036854775807
    FROM refused
    WHERE s.tenant_id = $1 AND s.work_id = $2 AND s.n = $3 AND s.kind = 2
)
UPDATE weir.work AS w
SET state = 4, held_reason = $5, revision = w.revision + 1
FROM refused
WHERE w.tenant_id = $1 AND w.work_id = $2
