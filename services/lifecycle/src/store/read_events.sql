-- lifecycle.read_events
-- $1 tenant, $2 uids. Payloads from the body, or from the archive once its day was dropped.
SELECT e.uid, e.source, e.id, e.type, s.name AS scope, e.seq, e.accepted_at, e.actor, e.copy_of, e.root_uid,
       e.parent_uid, e.depth, coalesce(b.attributes, a.attributes) AS attributes,
       coalesce(b.keys, a.keys, '{}') AS keys, coalesce(b.target_work, a.target_work) AS target_work,
       coalesce(b.payload, a.payload) AS payload, coalesce(b.is_text, a.is_text, false) AS is_text
FROM unnest($2::uuid[]) AS u (uid)
CROSS JOIN LATERAL (
    SELECT * FROM weir.event AS x WHERE x.tenant_id = $1 AND x.uid = u.uid LIMIT 1
) AS e
CROSS JOIN LATERAL (
    SELECT x.name FROM weir.scope AS x WHERE x.tenant_id = $1 AND x.scope_id = e.scope_id LIMIT 1
) AS s
LEFT JOIN LATERAL (
    SELECT *
    FROM weir.event_body AS x
    WHERE x.tenant_id = $1 AND x.scope_id = e.scope_id AND x.accepted_at = e.accepted_at AND x.seq = e.seq
    LIMIT 1
) AS b ON true
LEFT JOIN LATERAL (
    SELECT * FROM weir.archive AS x WHERE x.tenant_id = $1 AND x.uid = u.uid AND b.seq IS NULL LIMIT 1
) AS a ON true
