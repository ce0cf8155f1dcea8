-- work.lock_watchers
-- $1 tenant, $2 works that ended: the open waits for their end, locked in order, whatever a release
-- of theirs that is under way will say of them.
SELECT w.work_id, w.n
FROM (
    SELECT DISTINCT s.work_id, s.n
    FROM unnest($2::uuid[]) AS u (work_id)
    CROSS JOIN LATERAL (
        SELECT x.work_id, x.n FROM weir.wait_sub AS x WHERE x.tenant_id = $1 AND x.ended_work = u.work_id OFFSET 0
    ) AS s
    ORDER BY s.work_id, s.n
) AS d
CROSS JOIN LATERAL (
    SELECT l.work_id, l.n
    FROM weir.wait AS l
    WHERE l.tenant_id = $1 AND l.work_id = d.work_id AND l.n = d.n AND l.state = 1
    LIMIT 1
    FOR NO KEY UPDATE
) AS w
