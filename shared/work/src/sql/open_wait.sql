-- work.open_wait
-- $1 tenant, $2 work. One row a condition; one without a condition when there is none. Where a bridge triggered the
-- attempt, what the bridge derives from stands for it: a Work that keeps waking itself grows no chain.
SELECT w.n, w.attempt, w.since, w.due_at, coalesce(t.parent_uid, w.trigger_uid, '00000000-0000-0000-0000-000000000000') AS trigger_uid,
       w.asked, s.item, s.kind, s.scope_id, s.condition, s.emitter, s.ended_work, s.seen_seq,
       NULLIF(s.seen_at, '-infinity') AS seen_at
FROM (
    SELECT *
    FROM weir.wait AS x
    WHERE x.tenant_id = $1 AND x.work_id = $2 AND x.state = 1
    ORDER BY x.n DESC
    LIMIT 1
) AS w
LEFT JOIN LATERAL (
    SELECT x.parent_uid
    FROM weir.event AS x
    WHERE x.tenant_id = $1 AND x.uid = w.trigger_uid AND x.type = 'core.wait.woken'
    LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (
    SELECT *
    FROM weir.wait_sub AS x
    WHERE x.tenant_id = $1 AND x.work_id = $2 AND x.n = w.n
    ORDER BY x.item
    OFFSET 0
) AS s ON true
