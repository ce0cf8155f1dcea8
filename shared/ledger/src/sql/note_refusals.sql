-- ledger.note_refusals: one redacted row stands for all refusals of a root, minute and cause (rule c05).
INSERT INTO weir.causal_refusal AS f (tenant_id, root_uid, minute, code, refused, limit_value, parent_uid, depth, type)
SELECT $1, root, date_trunc('minute', $9::timestamptz, 'UTC'), code, refused, limit_value, parent, depth, type
  FROM unnest($2::uuid[], $3::int2[], $4::int8[], $5::int4[], $6::uuid[], $7::int4[], $8::text[])
       AS u(root, code, refused, limit_value, parent, depth, type)
 ORDER BY root, code
    ON CONFLICT (tenant_id, root_uid, minute, code) DO UPDATE SET refused = f.refused + excluded.refused
