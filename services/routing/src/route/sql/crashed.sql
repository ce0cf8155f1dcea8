-- routing.crashed: deciding this locked event alone took a process down. It backs off each time; from the third on
-- each is a failure (r21), and the last of them when both limits are passed (r23): the next pass gives up.
UPDATE weir.pending p
   SET crashes = least(c.times, 32000) + 1,
       failures = p.failures + c.counted,
       first_failed_at = CASE WHEN c.counted = 0 THEN p.first_failed_at ELSE coalesce(p.first_failed_at, c.at) END,
       gave_up = c.gives_up,
       state = CASE WHEN p.state = 5 THEN 5 WHEN c.gives_up THEN 1 ELSE 2 END,
       next_try = CASE WHEN c.gives_up THEN '-infinity'
                       ELSE c.at + least(300, 2 * 2 ^ least(c.nth - 1, 8)) * (1 + random() / 4) * interval '1 second' END,
       last_code = $4,
       last_error = format('deciding it alone took the process down, time %s', c.times),
       last_route = NULL,
       hold_reason = NULL, hold_work = NULL, hold_attempt = NULL, conflict_works = NULL,
       tried_generation = coalesce((SELECT generation FROM weir.tenant WHERE tenant_id = $1), p.tried_generation)
  FROM (SELECT o.ctid AS row, n.at, n.times, n.counted,
               CASE WHEN n.counted = 1 THEN o.failures + 1 ELSE n.times END AS nth,
               n.counted = 1 AND o.failures + 1 >= $5
                   AND n.at - coalesce(o.first_failed_at, n.at) >= $6 * interval '1 millisecond' AS gives_up
          FROM weir.pending o
         CROSS JOIN LATERAL (SELECT weir.clock() AS at, greatest(o.crashes, 1)::int4 AS times,
                                    CASE WHEN greatest(o.crashes, 1) >= $7 THEN 1 ELSE 0 END AS counted) n
         WHERE o.tenant_id = $1 AND o.scope_id = $2 AND o.seq = $3) c
 WHERE p.ctid = c.row
RETURNING p.uid, p.crashes - 1
