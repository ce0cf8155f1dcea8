-- causal.read_root: $1 tenant, $2 any event of the tree. Limits: the pinned ones, else those that its scope has
-- in the current generation, as the charge reads them (rule c03). Spend: of the database's present minute.
SELECT r.uid AS root, c.max_depth IS NOT NULL AS pinned,
       coalesce(c.max_depth, l.max_depth, 32::int2) AS max_depth,
       coalesce(c.per_minute, l.per_minute, 128) AS per_minute,
       coalesce(b.spent, 0) AS spent, c.braked_at IS NOT NULL AS braked
  FROM weir.event AS e
  JOIN weir.event AS r ON r.tenant_id = e.tenant_id AND r.uid = coalesce(e.root_uid, e.uid)
  JOIN weir.tenant AS t ON t.tenant_id = e.tenant_id
 CROSS JOIN (SELECT date_trunc('minute', weir.clock(), 'UTC') AS minute) AS now
  LEFT JOIN weir.causal_root AS c ON c.tenant_id = e.tenant_id AND c.root_uid = r.uid
  LEFT JOIN weir.scope_limits AS l
         ON l.tenant_id = e.tenant_id AND l.generation = t.generation AND l.scope_id = r.scope_id
  LEFT JOIN weir.causal_bucket AS b
         ON b.tenant_id = e.tenant_id AND b.root_uid = r.uid AND b.minute = now.minute
 WHERE e.tenant_id = $1 AND e.uid = $2
