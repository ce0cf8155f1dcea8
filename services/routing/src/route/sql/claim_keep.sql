-- routing.claim_keep: what stays in evaluation after a commit.
UPDATE weir.route_claim
   SET seqs = $4::int8[]
 WHERE tenant_id = $1 AND owner = $2 AND scope_id = $3
