-- routing.set_aside: counts a failure on rows and backs off, 2 s doubling to 5 min.
UPDATE weir.pending p
   SET state = 2, failures = p.failures + 1, first_failed_at = coalesce(p.first_failed_at, weir.clock()),
       next_try = weir.clock() + least(300, 2 * 2 ^ least(p.failures, 8)) * interval '1 second',
       last_code = $4, last_error = 'cannot be decided; see the service log', tried_generation = $5
  FROM (SELECT l.ctid AS at
          FROM unnest($3::int8[]) AS u(seq)
         CROSS JOIN LATERAL (SELECT ctid
                               FROM weir.pending
                              WHERE tenant_id = $1 AND scope_id = $2 AND seq = u.seq
                                FOR UPDATE) l) locked
 WHERE p.ctid = locked.at
