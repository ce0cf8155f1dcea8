-- routing.claim_drop: nothing is in evaluation any more.
DELETE FROM weir.route_claim
 WHERE tenant_id = $1 AND owner = $2 AND scope_id = $3
