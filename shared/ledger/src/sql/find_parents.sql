-- ledger.find_parents: root, depth and limits of these parents. Limits: the pinned ones, else those of the
-- root's scope in the current generation (rule c03).
SELECT u.uid, e.depth, coalesce(e.root_uid, e.uid) AS root,
       c.max_depth AS pinned_depth, c.per_minute AS pinned_rate, c.braked_at IS NOT NULL AS braked,
       coalesce(l.max_depth, 32::int2) AS depth_limit, coalesce(l.per_minute, 128) AS rate_limit
  FROM unnest($2::uuid[]) AS u(uid)
 CROSS JOIN LATERAL (SELECT uid, root_uid, depth
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = u.uid
                      LIMIT 1) e
 CROSS JOIN LATERAL (SELECT scope_id
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = coalesce(e.root_uid, e.uid)
                      LIMIT 1) r
  LEFT JOIN LATERAL (SELECT max_depth, per_minute, braked_at
                       FROM weir.causal_root
                      WHERE tenant_id = $1 AND root_uid = coalesce(e.root_uid, e.uid)
                      LIMIT 1) c ON true
  LEFT JOIN LATERAL (SELECT max_depth, per_minute
                       FROM weir.scope_limits
                      WHERE tenant_id = $1 AND generation = $3 AND scope_id = r.scope_id
                      LIMIT 1) l ON true
