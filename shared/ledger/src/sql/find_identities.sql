-- ledger.find_identities: which of these identities are accepted already.
SELECT u.ord, e.uid, e.content, e.scope_id, e.seq, e.accepted_at
  FROM unnest($2::int8[], $3::text[], $4::text[]) AS u(ord, source, id)
 CROSS JOIN LATERAL (SELECT uid, content, scope_id, seq, accepted_at
                       FROM weir.event
                      WHERE tenant_id = $1 AND source = u.source AND id = u.id
                      LIMIT 1) e
