-- causal.list_diagnostics: $1 tenant, $2 minute, $3 root and $4 code after which the page starts, $5 most,
-- $6 not used here. Newest first.
SELECT f.root_uid, f.minute, f.code, f.refused, f.limit_value, f.parent_uid, f.depth, f.type
  FROM weir.causal_refusal AS f
 WHERE f.tenant_id = $1
   AND (f.minute, f.root_uid, f.code)
     < (coalesce($2::timestamptz, 'infinity'), coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
        coalesce($4::int2, 32767::int2))
   AND $6::uuid IS NULL
 ORDER BY f.minute DESC, f.root_uid DESC, f.code DESC
 LIMIT $5
