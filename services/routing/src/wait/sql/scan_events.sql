-- routing.scan_events: events of a subscribed scope after a position and an instant, in order.
SELECT b.seq, b.accepted_at, b.uid, e.source, e.id, e.type, e.depth, b.attributes, b.keys, b.payload, b.is_text
  FROM (SELECT seq, accepted_at, uid, attributes, keys, payload, is_text
          FROM weir.event_body
         WHERE tenant_id = $1 AND scope_id = $2 AND accepted_at >= $3 AND seq > $4
         ORDER BY accepted_at, seq
         LIMIT $5) b
 CROSS JOIN LATERAL (SELECT source, id, type, depth
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = b.uid
                      LIMIT 1) e
 ORDER BY b.accepted_at, b.seq
