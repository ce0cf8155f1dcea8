-- lifecycle.read_keys
-- $1 tenant, $2 works
SELECT u.work_id, k.keys
FROM unnest($2::uuid[]) AS u (work_id)
CROSS JOIN LATERAL (
    SELECT array_agg(x.key ORDER BY x.key) AS keys
    FROM weir.work_key AS x
    WHERE x.tenant_id = $1 AND x.work_id = u.work_id
) AS k
WHERE k.keys IS NOT NULL
