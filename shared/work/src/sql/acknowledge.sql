-- work.acknowledge
-- $1 tenant, $2 work, $3 epoch, $4 attempt, $5 last input presented by the claim, $6 events
WITH offered AS MATERIALIZED (
    SELECT i.at, i.n, u.uid
    FROM unnest($6::uuid[]) AS u (uid)
    CROSS JOIN LATERAL (
        SELECT l.ctid AS at, l.n
        FROM weir.intent AS l
        WHERE l.tenant_id = $1 AND l.work_id = $2 AND l.epoch = $3 AND l.uid = u.uid
          AND l.attempt = $4 AND l.state < 4 AND l.n > $5
        OFFSET 0
    ) AS i
), marked AS (
    UPDATE weir.intent AS t
    SET state = 3
    FROM offered
    WHERE t.ctid = offered.at AND t.state < 3
), taken AS (
    UPDATE weir.input AS t
    SET taken_by = $4
    FROM (
        SELECT DISTINCT l.at
        FROM offered AS o
        CROSS JOIN LATERAL (
            SELECT x.ctid AS at
            FROM weir.input AS x
            WHERE x.tenant_id = $1 AND x.work_id = $2 AND x.n = o.n AND x.taken_by IS NULL
            LIMIT 1
        ) AS l
    ) AS s
    WHERE t.ctid = s.at
)
SELECT DISTINCT uid FROM offered
