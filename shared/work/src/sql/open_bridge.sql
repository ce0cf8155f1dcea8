-- work.open_bridge
-- $1 tenant, $2 work, $3 consumed: the bridge of its last won wait, while no attempt consumed it
SELECT i.n, i.uid, i.binding_id
FROM (
    SELECT x.bridge_uid
    FROM weir.wait AS x
    WHERE x.tenant_id = $1 AND x.work_id = $2 AND x.state IN (2, 3)
    ORDER BY x.n DESC
    LIMIT 1
) AS w
CROSS JOIN LATERAL (
    SELECT y.n, y.uid, y.binding_id
    FROM weir.input AS y
    WHERE y.tenant_id = $1 AND y.work_id = $2 AND y.n > $3 AND y.taken_by = 0 AND y.uid = w.bridge_uid
    LIMIT 1
) AS i
