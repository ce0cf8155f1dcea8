-- work.clean_up
-- $1 tenant, $2 work ids, locked. Returns how many waits were open, and whether others wait for an end. OFFSET 0
-- keeps each lookup an index probe a work, whatever the statistics say.
WITH timers AS (
    DELETE FROM weir.timer AS t
    USING (
        SELECT l.at
        FROM unnest($2::uuid[]) AS u (work_id)
        CROSS JOIN LATERAL (
            SELECT x.ctid AS at FROM weir.timer AS x WHERE x.tenant_id = $1 AND x.work_id = u.work_id OFFSET 0
        ) AS l
    ) AS s
    WHERE t.ctid = s.at
), intents AS (
    UPDATE weir.intent AS t
    SET state = 4
    FROM (
        SELECT l.at
        FROM unnest($2::uuid[]) AS u (work_id)
        CROSS JOIN LATERAL (
            SELECT x.ctid AS at
            FROM weir.intent AS x
            WHERE x.tenant_id = $1 AND x.work_id = u.work_id AND x.state IN (1, 2)
            OFFSET 0
        ) AS l
    ) AS s
    WHERE t.ctid = s.at
), waits AS (
    UPDATE weir.wait AS t
    SET state = 4
    FROM (
        SELECT l.at
        FROM unnest($2::uuid[]) AS u (work_id)
        CROSS JOIN LATERAL (
            SELECT x.ctid AS at
            FROM weir.wait AS x
            WHERE x.tenant_id = $1 AND x.work_id = u.work_id AND x.state = 1
            OFFSET 0
        ) AS l
    ) AS s
    WHERE t.ctid = s.at
    RETURNING 1
)
SELECT (SELECT count(*) FROM waits) AS waits,
       EXISTS (
           SELECT
           FROM unnest($2::uuid[]) AS u (work_id)
           CROSS JOIN LATERAL (
               SELECT FROM weir.wait_sub AS s WHERE s.tenant_id = $1 AND s.ended_work = u.work_id OFFSET 0
           ) AS s) AS watched
