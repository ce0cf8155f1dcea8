-- routing.select_events: envelopes of pending events; the archive keeps what an unrouted event needs.
SELECT u.seq, e.source, e.id, e.type, e.depth,
       coalesce(b.attributes, a.attributes) AS attributes, coalesce(b.keys, a.keys) AS keys,
       coalesce(b.payload, a.payload) AS payload, coalesce(b.is_text, a.is_text) AS is_text
  FROM unnest($3::uuid[], $4::timestamptz[], $5::int8[]) AS u(uid, accepted_at, seq)
 CROSS JOIN LATERAL (SELECT source, id, type, depth
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = u.uid
                      LIMIT 1) e
  LEFT JOIN LATERAL (SELECT attributes, keys, payload, is_text
                       FROM weir.event_body
                      WHERE tenant_id = $1 AND scope_id = $2 AND accepted_at = u.accepted_at AND seq = u.seq
                      LIMIT 1) b ON true
  LEFT JOIN LATERAL (SELECT attributes, keys, payload, is_text
                       FROM weir.archive
                      WHERE b.attributes IS NULL AND tenant_id = $1 AND uid = u.uid
                      LIMIT 1) a ON true
 WHERE coalesce(b.attributes, a.attributes) IS NOT NULL
