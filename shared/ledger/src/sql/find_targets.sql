-- ledger.find_targets: which of these Works are in the scope.
SELECT w.work_id
  FROM unnest($3::uuid[]) AS u(work_id)
 CROSS JOIN LATERAL (SELECT work_id
                       FROM weir.work
                      WHERE tenant_id = $1 AND work_id = u.work_id AND scope_id = $2
                      LIMIT 1) w
