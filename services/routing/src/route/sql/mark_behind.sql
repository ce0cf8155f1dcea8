-- routing.mark_behind: what stands behind a deferred event is deferred with it, locked in order.
WITH u AS MATERIALIZED (
    SELECT p.at, x.reason, x.work, x.attempt
      FROM unnest($3::int8[], $4::text[], $5::uuid[], $6::int4[]) AS x(seq, reason, work, attempt)
     CROSS JOIN LATERAL (SELECT ctid AS at
                           FROM weir.pending
                          WHERE tenant_id = $1 AND scope_id = $2 AND seq = x.seq AND state IN (1, 2)
                            FOR UPDATE) p
)
UPDATE weir.pending p
   SET state = 3, hold_reason = u.reason, hold_work = u.work, hold_attempt = u.attempt, tried_generation = $7
  FROM u
 WHERE p.ctid = u.at
