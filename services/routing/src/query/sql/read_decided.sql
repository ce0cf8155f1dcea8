-- routing.read_decided: which of these events have been decided.
SELECT u.uid
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u(uid, ord)
 CROSS JOIN LATERAL (SELECT disposition
                       FROM weir.event
                      WHERE tenant_id = $1 AND uid = u.uid
                      LIMIT 1) AS e
 WHERE e.disposition IS NOT NULL
 ORDER BY u.ord
 LIMIT $3
