-- lifecycle.list_inputs
-- $1 tenant, $2 work, $3 number after which the page starts, $4 most.
-- State: 1 queued, 2 presented, 3 consumed, 4 abandoned. Consumed means taken by an attempt out of order, or up
-- to the watermark: then by the attempt that completed (1) or parked (6) with it in its range. Taken by 0 is what
-- woke the Work: presented beside the range to an attempt that has the bridge.
SELECT i.n, i.uid, b.name AS binding,
       CASE WHEN i.taken_by > 0 OR i.n <= w.consumed THEN 3
            WHEN w.state >= 5 THEN 4
            WHEN r.leased AND (i.taken_by = 0 AND r.bridge_n > 0 OR i.n BETWEEN r.input_from AND r.input_to) THEN 2
            ELSE 1 END::int2 AS state,
       CASE WHEN i.taken_by > 0 THEN i.taken_by
            WHEN i.n <= w.consumed THEN a.number
            WHEN r.leased AND (i.taken_by = 0 AND r.bridge_n > 0 OR i.n BETWEEN r.input_from AND r.input_to)
            THEN r.attempt
       END AS attempt,
       t.kind AS intent
FROM weir.work AS w
CROSS JOIN LATERAL (
    SELECT *
    FROM weir.input AS x
    WHERE x.tenant_id = $1 AND x.work_id = $2 AND x.n > $3
    ORDER BY x.n
    LIMIT $4
) AS i
LEFT JOIN weir.binding AS b ON b.tenant_id = $1 AND b.binding_id = i.binding_id
LEFT JOIN LATERAL (
    SELECT x.attempt, x.epoch, x.bridge_n, x.input_from, x.input_to, x.owner <> '' AND x.lease_until > weir.clock() AS leased
    FROM weir.ready AS x
    WHERE x.tenant_id = $1 AND x.binding_id = w.binding_id AND x.priority = -w.priority AND x.pos = w.queue_pos
    LIMIT 1
) AS r ON true
LEFT JOIN LATERAL (
    SELECT x.number
    FROM weir.attempt AS x
    WHERE x.tenant_id = $1 AND x.work_id = $2 AND x.outcome IN (1, 6) AND i.n BETWEEN x.input_from AND x.input_to
    ORDER BY x.number
    LIMIT 1
) AS a ON i.n <= w.consumed
LEFT JOIN LATERAL (
    SELECT x.kind
    FROM weir.intent AS x
    WHERE x.tenant_id = $1 AND x.work_id = $2 AND x.epoch = r.epoch AND x.uid = i.uid AND x.state < 4
    ORDER BY x.kind
    LIMIT 1
) AS t ON r.leased
WHERE w.tenant_id = $1 AND w.work_id = $2
ORDER BY i.n
