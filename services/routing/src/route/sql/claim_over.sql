-- routing.claim_over: nothing is decided alone any more.
UPDATE weir.route_claim
   SET alone = NULL
 WHERE tenant_id = $1 AND owner = $2 AND scope_id = $3 AND alone IS NOT NULL
