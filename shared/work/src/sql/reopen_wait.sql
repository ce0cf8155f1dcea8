-- work.reopen_wait
-- $1 tenant, $2 work, locked and released: its open wait asks for a check, and its subscriptions have seen what
-- their scopes accepted before `since`, as when it parked. Returns whether own input wins it.
WITH asked AS (
    UPDATE weir.wait
    SET asked = asked + 1, refusal = NULL
    WHERE tenant_id = $1 AND work_id = $2 AND state = 1
    RETURNING n, since
), awake AS (
    UPDATE weir.wait_sub AS s
    SET seen_seq = coalesce(
            (SELECT x.seq - 1
             FROM weir.event_body AS x
             WHERE x.tenant_id = $1 AND x.scope_id = s.scope_id AND x.accepted_at >= asked.since
             ORDER BY x.accepted_at, x.seq
             LIMIT 1),
            (SELECT x.last_seq
             FROM weir.scope_head AS x
             WHERE x.tenant_id = $1 AND x.scope_id = s.scope_id
             ORDER BY x.first_seq DESC
             LIMIT 1),
            0),
        seen_at = '-infinity'
    FROM asked
    WHERE s.tenant_id = $1 AND s.work_id = $2 AND s.n = asked.n AND s.kind = 2
)
SELECT EXISTS (
    SELECT
    FROM weir.wait_sub AS s
    JOIN asked ON asked.n = s.n
    WHERE s.tenant_id = $1 AND s.work_id = $2 AND s.kind = 1)
