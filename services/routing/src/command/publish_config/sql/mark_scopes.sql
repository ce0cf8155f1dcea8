-- routing.mark_scopes: these are in the generation; the others keep the last one that had them.
UPDATE weir.scope AS s
   SET generation = $2
  FROM unnest($3::int4[]) AS u(scope_id)
 WHERE s.tenant_id = $1
   AND s.scope_id = u.scope_id
   AND s.generation < $2
