-- routing.announce: which generations this process runs now.
INSERT INTO weir.replica (tenant_id, replica, generation, seen_at)
SELECT u.tenant_id, $1, u.generation, weir.clock()
  FROM unnest($2::int8[], $3::int8[]) AS u(tenant_id, generation)
ON CONFLICT (tenant_id, replica) DO UPDATE
   SET generation = EXCLUDED.generation, seen_at = EXCLUDED.seen_at
