-- routing.claims_of: the claims of a process, unless it is live after all.
SELECT c.tenant_id, c.scope_id, c.seqs, c.alone
  FROM weir.route_claim c
 WHERE c.owner = $1
   AND NOT EXISTS (SELECT 1
                     FROM weir.replica p
                    WHERE p.tenant_id = 0 AND p.replica = c.owner
                      AND p.seen_at > weir.clock() - $2 * interval '1 millisecond')
 ORDER BY c.tenant_id, c.scope_id
