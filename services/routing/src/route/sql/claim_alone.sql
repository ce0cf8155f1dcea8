-- routing.claim_alone: the one position that this process decides now, and nothing else.
INSERT INTO weir.route_claim (tenant_id, owner, scope_id, seqs, claimed_at, alone)
SELECT $1, $2, $3, ARRAY[$4::int8], weir.clock(), $4::int8
  FROM (SELECT set_config('synchronous_commit', 'off', true)) quick
ON CONFLICT (tenant_id, scope_id, owner) DO UPDATE
   SET alone = EXCLUDED.alone
