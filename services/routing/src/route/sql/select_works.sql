-- routing.select_works: snapshots of Works of a scope, with the live attempt.
SELECT w.work_id, w.state, w.revision, w.held_reason, w.created_at,
       coalesce(r.epoch, w.epoch) AS epoch,
       coalesce(r.attempt, w.attempts) AS attempts,
       coalesce(r.binding_id, w.binding_id) AS binding_id, w.binding_id AS own_binding,
       (SELECT binding_id
          FROM weir.input i
         WHERE i.tenant_id = $1 AND i.work_id = w.work_id AND i.n > w.consumed AND i.taken_by IS NULL
         ORDER BY i.n
         LIMIT 1) AS queued_binding,
       coalesce(r.capabilities, 0::int2) AS capabilities,
       coalesce(r.owner <> '' AND r.lease_until > weir.clock(), false) AS live,
       ARRAY(SELECT key FROM weir.work_key k WHERE k.tenant_id = $1 AND k.work_id = w.work_id ORDER BY key LIMIT 256) AS keys
  FROM unnest($2::uuid[]) AS u(work_id)
 CROSS JOIN LATERAL (SELECT work_id, state, revision, held_reason, created_at, epoch, attempts, binding_id, priority, queue_pos,
                            consumed
                       FROM weir.work
                      WHERE tenant_id = $1 AND work_id = u.work_id AND scope_id = $3
                      LIMIT 1) w
  LEFT JOIN LATERAL (SELECT epoch, attempt, binding_id, capabilities, owner, lease_until
                       FROM weir.ready
                      WHERE tenant_id = $1 AND binding_id = w.binding_id AND priority = -w.priority AND pos = w.queue_pos
                      LIMIT 1) r ON true
