-- work.ask_watchers
-- $1 tenant, $2 works and $3 waits, locked by the statement before: their checks are asked for. Those that a refusal
-- put to sleep are asked by the release of their Work.
UPDATE weir.wait AS w
SET asked = w.asked + 1
FROM (
    SELECT l.at
    FROM unnest($2::uuid[], $3::int4[]) AS u (work_id, n)
    CROSS JOIN LATERAL (
        SELECT x.ctid AS at
        FROM weir.wait AS x
        WHERE x.tenant_id = $1 AND x.work_id = u.work_id AND x.n = u.n AND x.refusal IS NULL
        LIMIT 1
    ) AS l
) AS s
WHERE w.ctid = s.at
