-- routing.scan_pending: unrouted events of a scope after a position, in order.
SELECT p.seq, p.accepted_at, p.uid,
       coalesce(b.bytes, 0) AS bytes,
       ($6::text IS NULL OR e.type = $6) AND $7::int2 IS NULL AND $8::uuid IS NULL AND $9::bool AS keep
  FROM (SELECT seq, accepted_at, uid
          FROM weir.pending
         WHERE tenant_id = $1 AND scope_id = $2 AND seq > $4 AND $3::timestamptz IS NOT NULL
         ORDER BY seq
         LIMIT $5) AS p
 CROSS JOIN LATERAL (SELECT type
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = p.uid
                      LIMIT 1) AS e
  LEFT JOIN LATERAL (SELECT octet_length(attributes)
                            + CASE WHEN $10 THEN coalesce(octet_length(payload), 0) ELSE 0 END AS bytes
                       FROM weir.event_body
                      WHERE tenant_id = $1 AND scope_id = $2 AND accepted_at = p.accepted_at AND seq = p.seq
                      LIMIT 1) AS b ON true
 ORDER BY p.seq
