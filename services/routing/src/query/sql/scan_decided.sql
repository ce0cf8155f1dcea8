-- routing.scan_decided: events of a scope with one of the rare dispositions, after a position, in order.
SELECT e.seq, e.accepted_at, e.uid,
       coalesce(b.bytes, 0) AS bytes,
       ($6::text IS NULL OR e.type = $6) AND ($8::uuid IS NULL OR e.work_id IS NOT DISTINCT FROM $8)
           AND NOT $9::bool AS keep
  FROM (SELECT seq, accepted_at, uid, type, work_id
          FROM weir.event
         WHERE tenant_id = $1 AND scope_id = $2 AND disposition = $7 AND disposition >= 6
           AND seq > $4 AND $3::timestamptz IS NOT NULL
         ORDER BY seq
         LIMIT $5) AS e
  LEFT JOIN LATERAL (SELECT octet_length(attributes)
                            + CASE WHEN $10 THEN coalesce(octet_length(payload), 0) ELSE 0 END AS bytes
                       FROM weir.event_body
                      WHERE tenant_id = $1 AND scope_id = $2 AND accepted_at = e.accepted_at AND seq = e.seq
                      LIMIT 1) AS b ON true
 ORDER BY e.seq
