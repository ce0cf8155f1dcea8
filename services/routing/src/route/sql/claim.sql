-- routing.claim: what this process decides now in a scope. It need not survive the server, so no flush is waited
-- for: a server that loses it took no process down by deciding an event.
INSERT INTO weir.route_claim (tenant_id, owner, scope_id, seqs, claimed_at)
SELECT $1, $2, $3, $4::int8[], weir.clock()
  FROM (SELECT set_config('synchronous_commit', 'off', true)) quick
ON CONFLICT (tenant_id, scope_id, owner) DO UPDATE
   SET seqs = EXCLUDED.seqs, claimed_at = EXCLUDED.claimed_at
