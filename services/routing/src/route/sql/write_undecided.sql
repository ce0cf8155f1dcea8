-- routing.write_undecided: failures counted, deferrals and conflicts marked.
UPDATE weir.pending p
   SET state = u.state,
       hold_reason = u.reason,
       hold_work = u.work,
       hold_attempt = u.attempt,
       conflict_works = CASE WHEN u.conflict = '' THEN NULL ELSE string_to_array(u.conflict, ',')::uuid[] END,
       failures = coalesce(u.failures, p.failures),
       first_failed_at = CASE WHEN u.failures IS NULL THEN p.first_failed_at ELSE coalesce(p.first_failed_at, weir.clock()) END,
       next_try = CASE WHEN u.wait_ms IS NULL THEN p.next_try ELSE weir.clock() + u.wait_ms * interval '1 millisecond' END,
       last_code = coalesce(u.code, p.last_code),
       last_error = coalesce(u.error, p.last_error),
       last_route = coalesce(u.route, p.last_route),
       tried_generation = $13
  FROM unnest($3::int8[], $4::int2[], $5::text[], $6::uuid[], $7::int4[], $8::text[], $9::int2[], $10::int8[],
              $11::int2[], $12::text[], $14::int4[])
       AS u(seq, state, reason, work, attempt, conflict, failures, wait_ms, code, error, route)
 CROSS JOIN LATERAL (SELECT ctid AS at
                       FROM weir.pending
                      WHERE tenant_id = $1 AND scope_id = $2 AND seq = u.seq
                      LIMIT 1) l
 WHERE p.ctid = l.at
