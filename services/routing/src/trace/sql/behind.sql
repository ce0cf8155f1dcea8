-- routing.trace_behind: the deferred event that one with these tokens stands behind (r10): first by token, then by
-- position. It waits for an attempt that lives; a new generation, or the attempt's end, lets it be decided again.
SELECT p.uid, p.hold_work, p.hold_attempt
  FROM unnest($3::text[]) WITH ORDINALITY AS u(key, ord)
 CROSS JOIN LATERAL (SELECT seq
                       FROM weir.pending_key
                      WHERE tenant_id = $1 AND scope_id = $2 AND key = u.key
                      ORDER BY seq
                      LIMIT 1000) k
 CROSS JOIN LATERAL (SELECT seq, uid, hold_work, hold_attempt
                       FROM weir.pending
                      WHERE tenant_id = $1 AND scope_id = $2 AND seq = k.seq AND state = 3 AND tried_generation >= $4
                      LIMIT 1) p
 CROSS JOIN LATERAL (SELECT priority, binding_id, queue_pos
                       FROM weir.work
                      WHERE tenant_id = $1 AND work_id = p.hold_work
                      LIMIT 1) w
 CROSS JOIN LATERAL (SELECT attempt
                       FROM weir.ready
                      WHERE tenant_id = $1 AND binding_id = w.binding_id AND priority = -w.priority AND pos = w.queue_pos
                        AND attempt = p.hold_attempt AND owner <> '' AND lease_until > weir.clock()
                      LIMIT 1) r
 ORDER BY u.ord, p.seq
 LIMIT 1
