-- work.free_deferred
-- $1 tenant, $2 scopes, $3 works, one by one
WITH held AS MATERIALIZED (
    SELECT p.at
    FROM unnest($2::int4[], $3::uuid[]) AS u (scope_id, work_id)
    CROSS JOIN LATERAL (
        SELECT k.seq
        FROM weir.pending_key AS k
        WHERE k.tenant_id = $1 AND k.scope_id = u.scope_id AND k.key = chr(1) || u.work_id::text
        ORDER BY k.seq
    ) AS k
    CROSS JOIN LATERAL (
        SELECT l.ctid AS at
        FROM weir.pending AS l
        WHERE l.tenant_id = $1 AND l.scope_id = u.scope_id AND l.seq = k.seq
          AND l.state = 3 AND l.hold_work = u.work_id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS p
)
UPDATE weir.pending AS p
SET state = 1, hold_reason = NULL, hold_work = NULL, hold_attempt = NULL, next_try = '-infinity'
FROM held
WHERE p.ctid = held.at
