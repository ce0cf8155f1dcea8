-- causal.list_diagnostics: newest first. $1 tenant; the page starts after minute $2, code $3, root $5; $4 most.
SELECT f.root_uid, f.minute, f.code, f.refused, f.limit_value, f.parent_uid, f.depth, f.type
  FROM weir.causal_refusal AS f
 WHERE f.tenant_id = $1
   AND (f.minute, f.root_uid, f.code)
     < (coalesce($2::timestamptz, 'infinity'), coalesce($5::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
        coalesce($3::int2, 32767::int2))
 ORDER BY f.minute DESC, f.root_uid DESC, f.code DESC
 LIMIT $4
