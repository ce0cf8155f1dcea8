-- routing.select_pending: undecided events of a scope in order, with whether they may be decided now: fresh (and
-- not waiting a moment for a wake, r43), or backoff over, or a new generation (r22), or the attempt waited for is over (r10). Braked ones never.
SELECT p.seq, p.uid, p.accepted_at, p.keys, p.target_work, p.state, p.failures, p.first_failed_at, p.hold_work, p.hold_attempt,
       p.crashes, p.gave_up, coalesce(b.bytes, 0)::int8 AS bytes,
       CASE p.state
           WHEN 1 THEN p.next_try <= weir.clock()
           WHEN 2 THEN p.next_try <= weir.clock() OR p.tried_generation < $4
           WHEN 3 THEN p.tried_generation < $4 OR NOT coalesce(a.live, false)
           WHEN 4 THEN p.tried_generation < $4
           ELSE false
       END AS due
  FROM weir.pending p
  LEFT JOIN LATERAL (
      SELECT r.owner <> '' AND r.lease_until > weir.clock() AND r.attempt = p.hold_attempt AS live
        FROM weir.work w
        JOIN weir.ready r
          ON r.tenant_id = w.tenant_id AND r.binding_id = w.binding_id AND r.priority = -w.priority AND r.pos = w.queue_pos
       WHERE p.state = 3 AND w.tenant_id = $1 AND w.work_id = p.hold_work
       LIMIT 1) a ON true
  LEFT JOIN LATERAL (
      SELECT octet_length(payload) AS bytes
        FROM weir.event_body
       WHERE tenant_id = $1 AND scope_id = $2 AND accepted_at = p.accepted_at AND seq = p.seq
       LIMIT 1) b ON true
 WHERE p.tenant_id = $1 AND p.scope_id = $2 AND p.seq > $3
 ORDER BY p.seq
 LIMIT $5
