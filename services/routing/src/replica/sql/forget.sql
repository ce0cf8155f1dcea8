-- routing.forget_replicas: rows of processes that are dead for long.
DELETE FROM weir.replica r
 WHERE r.seen_at < weir.clock() - $1 * interval '1 millisecond'
   AND NOT EXISTS (SELECT 1
                     FROM weir.replica p
                    WHERE p.tenant_id = 0 AND p.replica = r.replica
                      AND p.seen_at >= weir.clock() - $1 * interval '1 millisecond')
