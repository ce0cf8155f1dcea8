-- routing.dead_owners: processes that left claims and are not live.
SELECT DISTINCT c.owner
  FROM weir.route_claim c
 WHERE c.owner <> $1
   AND NOT EXISTS (SELECT 1
                     FROM weir.replica p
                    WHERE p.tenant_id = 0 AND p.replica = c.owner
                      AND p.seen_at > weir.clock() - $2 * interval '1 millisecond')
 LIMIT 100
