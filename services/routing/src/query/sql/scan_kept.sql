-- routing.scan_kept: what retention has kept of a scope after a position, in order; `keep` says whether the
-- filter takes it.
SELECT b.seq, b.accepted_at, b.uid, b.bytes, e.keep
  FROM (SELECT seq, accepted_at, uid,
               octet_length(attributes) + CASE WHEN $10 THEN coalesce(octet_length(payload), 0) ELSE 0 END AS bytes
          FROM weir.event_body
         WHERE tenant_id = $1 AND scope_id = $2
           AND accepted_at >= $3 AND (accepted_at > $3 OR seq > $4)
         ORDER BY accepted_at, seq
         LIMIT $5) AS b
 CROSS JOIN LATERAL (SELECT ($6::text IS NULL OR type = $6)
                            AND ($7::int2 IS NULL OR disposition IS NOT DISTINCT FROM $7)
                            AND ($8::uuid IS NULL OR work_id IS NOT DISTINCT FROM $8)
                            AND (NOT $9::bool OR disposition IS NULL) AS keep
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = b.uid
                      LIMIT 1) AS e
 ORDER BY b.accepted_at, b.seq
