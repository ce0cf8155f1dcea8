-- routing.claimed_elsewhere: positions that this process keeps off: one that another decides alone now, and all that
-- was claimed by one that nobody has seen since this process started.
SELECT CASE WHEN r.seen_at > $4 THEN ARRAY[c.alone] ELSE c.seqs END AS seqs
  FROM weir.route_claim c
  LEFT JOIN LATERAL (SELECT seen_at
                       FROM weir.replica
                      WHERE tenant_id = 0 AND replica = c.owner
                      LIMIT 1) r ON true
 WHERE c.tenant_id = $1 AND c.scope_id = $2 AND c.owner <> $3
   AND (c.alone IS NOT NULL OR r.seen_at IS NULL OR r.seen_at <= $4)
