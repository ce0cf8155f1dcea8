-- routing.select_events: envelopes of pending events; the archive keeps what an unrouted event needs.
SELECT u.seq, e.source, e.id, e.type, e.depth, b.attributes, b.keys, b.payload, b.is_text
  FROM unnest($3::uuid[], $4::timestamptz[], $5::int8[]) AS u(uid, accepted_at, seq)
 CROSS JOIN LATERAL (SELECT source, id, type, depth
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = u.uid
                      LIMIT 1) e
 CROSS JOIN LATERAL (SELECT attributes, keys, payload, is_text
                       FROM weir.event_body
                      WHERE tenant_id = $1 AND scope_id = $2 AND accepted_at = u.accepted_at AND seq = u.seq
                      LIMIT 1) b
