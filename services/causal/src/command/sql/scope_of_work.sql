-- causal.scope_of_work: $1 tenant, $2 work.
SELECT s.name
  FROM weir.work AS w
  JOIN weir.scope AS s ON s.tenant_id = w.tenant_id AND s.scope_id = w.scope_id
 WHERE w.tenant_id = $1 AND w.work_id = $2
