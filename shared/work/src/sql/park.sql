-- work.park
-- $1 tenant, $2 work, locked; $3 attempt, $4 since, $5 due at, $6 trigger; the conditions, one by one: $7 kinds,
-- $8 scopes, $9 filters, $10 emitters, $11 ended works. A subscription has seen what its scope accepted before
-- `since`: positions are dense and commit in order, so what this snapshot lacks comes after its head.
WITH opened AS (
    INSERT INTO weir.wait (tenant_id, work_id, n, attempt, since, due_at, trigger_uid)
    SELECT $1, $2, coalesce(max(x.n), 0) + 1, $3, $4, $5, $6
    FROM weir.wait AS x
    WHERE x.tenant_id = $1 AND x.work_id = $2
    RETURNING n, since, due_at
), subscribed AS (
    INSERT INTO weir.wait_sub (tenant_id, scope_id, work_id, n, item, kind, condition, emitter, ended_work, seen_seq)
    SELECT $1, u.scope_id, $2, opened.n, u.item, u.kind, u.condition, u.emitter, u.ended_work,
           CASE WHEN u.kind = 2 THEN coalesce(b.seq - 1, h.last_seq, 0) ELSE 0 END
    FROM opened
    CROSS JOIN unnest($7::int2[], $8::int4[], $9::text[], $10::uuid[], $11::uuid[])
        WITH ORDINALITY AS u (kind, scope_id, condition, emitter, ended_work, item)
    LEFT JOIN LATERAL (
        SELECT x.seq
        FROM weir.event_body AS x
        WHERE x.tenant_id = $1 AND x.scope_id = u.scope_id AND x.accepted_at >= $4 AND u.kind = 2
        ORDER BY x.accepted_at, x.seq
        LIMIT 1
    ) AS b ON true
    LEFT JOIN LATERAL (
        SELECT x.last_seq
        FROM weir.scope_head AS x
        WHERE x.tenant_id = $1 AND x.scope_id = u.scope_id AND u.kind = 2
        ORDER BY x.first_seq DESC
        LIMIT 1
    ) AS h ON true
)
SELECT opened.n, opened.since, opened.due_at FROM opened
