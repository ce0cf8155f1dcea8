-- ledger.spend: takes up to `wanted` tokens of each root's minute; the row lock makes it exact.
INSERT INTO weir.causal_bucket AS b (tenant_id, root_uid, minute, spent, granted)
SELECT $1, root, date_trunc('minute', $5::timestamptz, 'UTC'), least(wanted, max), least(wanted, max)
  FROM unnest($2::uuid[], $3::int4[], $4::int4[]) AS u(root, wanted, max)
 ORDER BY root
    ON CONFLICT (tenant_id, root_uid, minute) DO UPDATE
   SET granted = greatest(0, least((SELECT wanted FROM unnest($2::uuid[], $3::int4[]) AS w(root, wanted)
                                     WHERE w.root = b.root_uid),
                                   (SELECT max FROM unnest($2::uuid[], $4::int4[]) AS m(root, max)
                                     WHERE m.root = b.root_uid) - b.spent)),
       spent = b.spent
             + greatest(0, least((SELECT wanted FROM unnest($2::uuid[], $3::int4[]) AS w(root, wanted)
                                   WHERE w.root = b.root_uid),
                                 (SELECT max FROM unnest($2::uuid[], $4::int4[]) AS m(root, max)
                                   WHERE m.root = b.root_uid) - b.spent))
RETURNING root_uid, granted
