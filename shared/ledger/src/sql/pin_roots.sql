-- ledger.pin_roots: pins limits at the first derived acceptance; waits for a twin and answers only what was new.
INSERT INTO weir.causal_root (tenant_id, root_uid, max_depth, per_minute, pinned_at)
SELECT $1, root, max_depth, per_minute, $5
  FROM unnest($2::uuid[], $3::int2[], $4::int4[]) AS u(root, max_depth, per_minute)
 ORDER BY root
    ON CONFLICT DO NOTHING
RETURNING root_uid
