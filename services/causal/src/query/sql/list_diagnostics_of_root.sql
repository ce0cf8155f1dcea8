-- causal.list_diagnostics_of_root: $1 tenant, $2 minute, $3 root and $4 code after which the page starts, $5 most,
-- $6 the root. Newest first.
SELECT f.root_uid, f.minute, f.code, f.refused, f.limit_value, f.parent_uid, f.depth, f.type
  FROM weir.causal_refusal AS f
 WHERE f.tenant_id = $1 AND f.root_uid = $6
   AND (f.minute, f.code) < (coalesce($2::timestamptz, 'infinity'), coalesce($4::int2, 32767::int2))
   AND ($3::uuid IS NULL OR $3 = $6)
 ORDER BY f.minute DESC, f.code DESC
 LIMIT $5
