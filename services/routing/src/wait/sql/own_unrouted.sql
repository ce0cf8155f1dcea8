-- routing.own_unrouted: the first accepted event of a Work that is unrouted; what stands aside for
-- another reason than this Work is none: conflicting, braked, backing off, deferred to another Work's attempt.
SELECT p.uid, p.accepted_at
  FROM weir.pending_key k
 CROSS JOIN LATERAL (SELECT uid, accepted_at
                       FROM weir.pending
                      WHERE tenant_id = $1 AND scope_id = $2 AND seq = k.seq AND (state = 1
                                   OR state = 2 AND next_try <= weir.clock()
                                   OR state = 3 AND hold_work = $4)
                      LIMIT 1) p
 WHERE k.tenant_id = $1 AND k.scope_id = $2 AND k.key = $3
 ORDER BY k.seq
 LIMIT 1
