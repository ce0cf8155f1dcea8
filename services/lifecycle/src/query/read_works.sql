-- lifecycle.read_works
-- $1 tenant, $2 works
SELECT w.work_id, s.name AS scope, w.state, w.revision, b.name AS binding, w.priority, w.held_reason, w.parent_id,
       w.predecessor_id, w.created_at, w.ended_at,
       coalesce(r.attempt, w.attempts) AS attempts, coalesce(r.tries, w.tries) AS tries,
       coalesce(r.epoch, w.epoch) AS epoch,
       coalesce(k.keys, '{}') AS keys, i.open_inputs, i.queued_at,
       r.owner, NULLIF(r.lease_until, '-infinity') AS lease_until, NULLIF(r.claimed_at, '-infinity') AS claimed_at,
       p.uid AS unrouted, p.accepted_at AS unrouted_at, p.hold_reason,
       v.n AS wait, v.since AS wait_since, v.due_at AS wait_due, c.kinds, c.scopes, c.filters, c.emitters, c.ended,
       weir.clock() AS at
FROM unnest($2::uuid[]) WITH ORDINALITY AS u (work_id, place)
CROSS JOIN LATERAL (
    SELECT * FROM weir.work AS x WHERE x.tenant_id = $1 AND x.work_id = u.work_id LIMIT 1
) AS w
LEFT JOIN weir.scope AS s ON s.tenant_id = $1 AND s.scope_id = w.scope_id
LEFT JOIN weir.binding AS b ON b.tenant_id = $1 AND b.binding_id = w.binding_id
LEFT JOIN LATERAL (
    SELECT *
    FROM weir.ready AS x
    WHERE x.tenant_id = $1 AND x.binding_id = w.binding_id AND x.priority = -w.priority AND x.pos = w.queue_pos
    LIMIT 1
) AS r ON true
LEFT JOIN LATERAL (
    SELECT array_agg(x.key ORDER BY x.key) AS keys
    FROM weir.work_key AS x
    WHERE x.tenant_id = $1 AND x.work_id = u.work_id
) AS k ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS open_inputs, min(x.accepted_at) AS queued_at
    FROM weir.input AS x
    WHERE x.tenant_id = $1 AND x.work_id = u.work_id AND x.n > w.consumed
      AND (x.taken_by IS NULL OR x.taken_by = 0) AND w.state < 5
) AS i ON true
LEFT JOIN LATERAL (
    SELECT y.uid, y.accepted_at, y.hold_reason
    FROM weir.pending_key AS x
    CROSS JOIN LATERAL (
        SELECT z.uid, z.accepted_at, z.hold_reason
        FROM weir.pending AS z
        WHERE z.tenant_id = $1 AND z.scope_id = w.scope_id AND z.seq = x.seq
        LIMIT 1
    ) AS y
    WHERE x.tenant_id = $1 AND x.scope_id = w.scope_id AND x.key = chr(1) || u.work_id::text
      AND w.state = 1 AND w.queue_pos IS NULL
    ORDER BY x.seq
    LIMIT 1
) AS p ON true
LEFT JOIN LATERAL (
    SELECT x.n, x.since, x.due_at
    FROM weir.wait AS x
    WHERE x.tenant_id = $1 AND x.work_id = u.work_id AND x.state = 1 AND w.state IN (3, 4)
    ORDER BY x.n DESC
    LIMIT 1
) AS v ON true
LEFT JOIN LATERAL (
    SELECT array_agg(y.kind ORDER BY y.item) AS kinds, array_agg(z.name ORDER BY y.item) AS scopes,
           array_agg(y.condition ORDER BY y.item) AS filters, array_agg(y.emitter ORDER BY y.item) AS emitters,
           array_agg(y.ended_work ORDER BY y.item) AS ended
    FROM weir.wait_sub AS y
    LEFT JOIN weir.scope AS z ON z.tenant_id = $1 AND z.scope_id = y.scope_id
    WHERE y.tenant_id = $1 AND y.work_id = u.work_id AND y.n = v.n
) AS c ON v.n IS NOT NULL
ORDER BY u.place
