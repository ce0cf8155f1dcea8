-- routing.config_status: what each live process runs of a tenant.
SELECT r.replica, r.generation, p.seen_at
  FROM weir.replica r
  JOIN weir.replica p ON p.tenant_id = 0 AND p.replica = r.replica
 WHERE r.tenant_id = $1 AND p.seen_at > weir.clock() - $2 * interval '1 millisecond'
 ORDER BY r.replica
