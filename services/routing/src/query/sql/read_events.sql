-- routing.read_events: events by uid, in the order given, with their record or why there is none.
SELECT e.uid, e.source, e.id, e.type, e.scope_id, s.name AS scope, e.seq, e.accepted_at, e.actor,
       e.copy_of, e.root_uid, e.parent_uid, e.depth,
       e.disposition, e.work_id, e.generation, e.policy, e.reason, e.error, e.attempts,
       won.scopes AS won_scopes, won.works AS won_works, won.waits AS won_waits,
       r.slot, b.name AS binding, f.packed, f.truncated,
       coalesce(body.attributes, kept.attributes) AS attributes,
       coalesce(body.keys, kept.keys) AS keys,
       coalesce(body.target_work, kept.target_work) AS target_work,
       coalesce(body.is_text, kept.is_text) AS is_text,
       CASE WHEN $3 THEN coalesce(body.payload, kept.payload) END AS payload,
       p.state, p.hold_reason, p.hold_work, p.conflict_works, p.failures, p.first_failed_at, p.last_code,
       p.last_error,
       CASE WHEN p.state = 2 AND isfinite(p.next_try) THEN p.next_try END AS next_try
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u(uid, ord)
 CROSS JOIN LATERAL (SELECT uid, source, id, type, scope_id, seq, accepted_at, actor, copy_of, root_uid,
                            parent_uid, depth, disposition, work_id, route_id, binding_id, generation, policy,
                            reason, error, attempts
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = u.uid
                      LIMIT 1) AS e
 CROSS JOIN LATERAL (SELECT name
                       FROM weir.scope
                      WHERE tenant_id = $1 AND scope_id = e.scope_id
                      LIMIT 1) AS s
  LEFT JOIN LATERAL (SELECT slot
                       FROM weir.route
                      WHERE tenant_id = $1 AND route_id = e.route_id
                      LIMIT 1) AS r ON true
  LEFT JOIN LATERAL (SELECT name
                       FROM weir.binding
                      WHERE tenant_id = $1 AND binding_id = e.binding_id
                      LIMIT 1) AS b ON true
  LEFT JOIN LATERAL (SELECT packed, truncated
                       FROM weir.route_refusal
                      WHERE tenant_id = $1 AND uid = e.uid AND e.disposition = 7
                      LIMIT 1) AS f ON true
  LEFT JOIN LATERAL (SELECT attributes, keys, target_work, is_text, payload
                       FROM weir.event_body
                      WHERE tenant_id = $1 AND scope_id = e.scope_id AND accepted_at = e.accepted_at
                        AND seq = e.seq
                      LIMIT 1) AS body ON true
  LEFT JOIN LATERAL (SELECT attributes, keys, target_work, is_text, payload
                       FROM weir.archive
                      WHERE tenant_id = $1 AND uid = e.uid AND body.attributes IS NULL
                      LIMIT 1) AS kept ON true
  LEFT JOIN LATERAL (SELECT state, hold_reason, hold_work, conflict_works, failures, first_failed_at, last_code,
                            last_error, next_try
                       FROM weir.pending
                      WHERE tenant_id = $1 AND scope_id = e.scope_id AND seq = e.seq AND e.disposition IS NULL
                      LIMIT 1) AS p ON true
  LEFT JOIN LATERAL (SELECT array_agg(n.name ORDER BY w.work_id, w.n) AS scopes,
                            array_agg(w.work_id ORDER BY w.work_id, w.n) AS works,
                            array_agg(w.n ORDER BY w.work_id, w.n) AS waits
                       FROM weir.wait w
                      CROSS JOIN LATERAL (SELECT s.name
                                            FROM weir.work o
                                            JOIN weir.scope s ON s.tenant_id = o.tenant_id AND s.scope_id = o.scope_id
                                           WHERE o.tenant_id = $1 AND o.work_id = w.work_id
                                           LIMIT 1) n
                      WHERE w.tenant_id = $1 AND w.winner_uid = e.uid
                        AND NOT (e.disposition = 5 AND w.work_id = e.work_id)) AS won ON true
 ORDER BY u.ord
