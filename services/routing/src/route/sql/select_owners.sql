-- routing.select_owners: which Work owns these keys of the scope.
SELECT u.key, k.work_id
  FROM unnest($3::text[]) AS u(key)
 CROSS JOIN LATERAL (SELECT work_id
                       FROM weir.work_key
                      WHERE tenant_id = $1 AND scope_id = $2 AND key = u.key
                      LIMIT 1) k
