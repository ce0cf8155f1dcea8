-- lifecycle.claim_works
-- $1 tenant, $2 owner, $3 generation; the lanes in the order they are walked: $4 bindings, $5 priorities,
-- $6 quotas, $7 max attempts, $8 capabilities, $9 leases in ms, $10 registrations, $11 digests;
-- $12 most works, $13 most inputs a work, $14 most bytes a work and a batch.
-- What woke a Work comes first and whatever its size: the bridge, whose row counts both, then the event that won
-- (rule l04).
-- Locks ready rows only, with SKIP LOCKED, and so waits for nobody. Rows past the batch's bytes stay
-- locked to the commit and unclaimed. OFFSET 0 keeps a lookup an index probe, whatever the statistics say.
WITH taken AS MATERIALIZED (
    SELECT row_number() OVER () AS turn, l.*, r.*
    FROM unnest($4::int4[], $5::int2[], $6::int4[], $7::int2[], $8::int2[], $9::int8[], $10::int8[], $11::uuid[])
        AS l (lane_binding, lane_priority, quota, max_attempts, new_capabilities, new_lease, new_registration, new_digest)
    CROSS JOIN LATERAL (
        SELECT x.ctid AS at, x.work_id, x.epoch, x.attempt, x.owner, x.generation, x.registration,
               x.capabilities, x.digest, x.trigger_uid, x.claimed_at, x.bridge_n, x.input_from, x.input_to
        FROM weir.ready AS x
        WHERE x.tenant_id = $1 AND x.binding_id = l.lane_binding AND x.priority = l.lane_priority
          AND x.lease_until <= weir.clock() AND x.tries < l.max_attempts
        ORDER BY x.pos
        LIMIT l.quota
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS r
    LIMIT $12
), presented AS MATERIALIZED (
    SELECT t.*, i.lo, i.hi, h.uids || i.uids AS uids, (coalesce(h.bytes, 0) + coalesce(i.bytes, 0))::int8 AS bytes,
           sum(coalesce(h.bytes, 0) + coalesce(i.bytes, 0)) OVER (ORDER BY t.turn) AS running
    FROM taken AS t
    LEFT JOIN LATERAL (
        SELECT ARRAY[y.uid] || CASE WHEN w.winner_uid IS NOT NULL THEN ARRAY[w.winner_uid] END AS uids,
               y.bytes
        FROM weir.input AS y
        LEFT JOIN LATERAL (
            SELECT x.winner_uid
            FROM weir.wait AS x
            WHERE x.tenant_id = $1 AND x.work_id = t.work_id AND x.bridge_uid = y.uid
            ORDER BY x.n DESC
            LIMIT 1
        ) AS w ON true
        WHERE t.bridge_n > 0 AND y.tenant_id = $1 AND y.work_id = t.work_id AND y.n = t.bridge_n
        LIMIT 1
    ) AS h ON true
    CROSS JOIN LATERAL (
        SELECT min(p.n) AS lo, max(p.n) AS hi, array_agg(p.uid ORDER BY p.n) AS uids, sum(p.bytes) AS bytes
        FROM (
            SELECT q.n, q.uid, q.bytes, row_number() OVER prefix AS place, sum(q.bytes) OVER prefix AS total,
                   bool_and(q.binding_id = t.lane_binding) OVER prefix AS same
            FROM (
                SELECT y.n, y.uid, y.bytes, y.binding_id
                FROM weir.input AS y
                WHERE y.tenant_id = $1 AND y.work_id = t.work_id AND y.n >= t.input_from AND y.taken_by IS NULL
                ORDER BY y.n
                LIMIT $13 - coalesce(cardinality(h.uids), 0)
            ) AS q
            WINDOW prefix AS (ORDER BY q.n)
        ) AS p
        WHERE p.same AND (p.place = 1 AND h.uids IS NULL OR p.total + coalesce(h.bytes, 0) <= $14)
    ) AS i
), claimed AS (
    UPDATE weir.ready AS r
    SET owner = $2, epoch = r.epoch + 1, attempt = r.attempt + 1, tries = r.tries + 1,
        capabilities = p.new_capabilities, lease = p.new_lease * interval '1 millisecond',
        lease_until = weir.clock() + p.new_lease * interval '1 millisecond', claimed_at = weir.clock(),
        generation = $3, registration = p.new_registration, digest = p.new_digest,
        trigger_uid = CASE
            WHEN r.trigger_uid = '00000000-0000-0000-0000-000000000000' THEN coalesce(p.uids[1], r.trigger_uid)
            ELSE r.trigger_uid END,
        input_from = coalesce(p.lo, r.input_from), input_to = coalesce(p.hi, r.input_from - 1)
    FROM presented AS p
    WHERE r.ctid = p.at AND (p.turn = 1 OR p.running <= $14)
    RETURNING p.turn, r.binding_id, r.work_id, r.attempt, r.epoch, r.tries, r.lease_until, p.new_lease AS lease_ms,
              r.trigger_uid, p.uids, p.bytes, p.owner AS old_owner, p.attempt AS old_attempt, p.epoch AS old_epoch,
              p.generation AS old_generation, p.registration AS old_registration,
              p.capabilities AS old_capabilities, p.digest AS old_digest, p.trigger_uid AS old_trigger,
              p.claimed_at AS old_claimed_at, p.input_from AS old_from, p.input_to AS old_to
), lost AS (
    INSERT INTO weir.attempt (
        tenant_id, work_id, number, epoch, owner, binding_id, generation, registration, capabilities, digest,
        trigger_uid, claimed_at, ended_at, outcome, input_from, input_to)
    SELECT $1, c.work_id, c.old_attempt, c.old_epoch, c.old_owner, c.binding_id, c.old_generation,
           c.old_registration, c.old_capabilities, c.old_digest, c.old_trigger, c.old_claimed_at, weir.clock(), 4,
           c.old_from, c.old_to
    FROM claimed AS c
    WHERE c.old_owner <> ''
), void AS (
    UPDATE weir.intent AS t
    SET state = 4
    FROM (
        SELECT x.at
        FROM claimed AS c
        CROSS JOIN LATERAL (
            SELECT l.ctid AS at
            FROM weir.intent AS l
            WHERE l.tenant_id = $1 AND l.work_id = c.work_id AND l.epoch = c.old_epoch AND l.state IN (1, 2)
            OFFSET 0
        ) AS x
        WHERE c.old_owner <> ''
    ) AS s
    WHERE t.ctid = s.at
)
SELECT c.binding_id, c.work_id, c.attempt, c.epoch, c.tries, c.lease_until, c.lease_ms, c.trigger_uid, c.uids, c.bytes,
       c.old_owner <> '' AS took_over
FROM claimed AS c
ORDER BY c.turn
