-- causal.list_diagnostics_of_root: newest first. $1 tenant, $5 root; the page starts after minute $2, code $3; $4 most.
SELECT f.root_uid, f.minute, f.code, f.refused, f.limit_value, f.parent_uid, f.depth, f.type
  FROM weir.causal_refusal AS f
 WHERE f.tenant_id = $1 AND f.root_uid = $5
   AND (f.minute, f.code) < (coalesce($2::timestamptz, 'infinity'), coalesce($3::int2, 32767::int2))
 ORDER BY f.minute DESC, f.code DESC
 LIMIT $4
