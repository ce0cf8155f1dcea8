-- work.free_backoff
-- $1 tenant, $2 scope, $3 work: its events in backoff are due, their failures kept
WITH held AS MATERIALIZED (
    SELECT p.at
    FROM weir.pending_key AS k
    CROSS JOIN LATERAL (
        SELECT l.ctid AS at
        FROM weir.pending AS l
        WHERE l.tenant_id = $1 AND l.scope_id = $2 AND l.seq = k.seq AND l.state = 2
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS p
    WHERE k.tenant_id = $1 AND k.scope_id = $2 AND k.key = chr(1) || $3::uuid::text
)
UPDATE weir.pending AS p
SET state = 1, next_try = '-infinity'
FROM held
WHERE p.ctid = held.at
