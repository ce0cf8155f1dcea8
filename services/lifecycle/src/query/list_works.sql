-- lifecycle.list_works
-- $1 tenant, $2 scope's name or NULL, $3 state or NULL (1 ready, 2 running, as readers see them),
-- $4 binding's name or NULL, $5 id after which the page starts or NULL, $6 most
SELECT w.work_id
FROM weir.work AS w
LEFT JOIN LATERAL (
    SELECT r.owner <> '' AND r.lease_until > weir.clock() AS leased
    FROM weir.ready AS r
    WHERE r.tenant_id = $1 AND r.binding_id = w.binding_id AND r.priority = -w.priority AND r.pos = w.queue_pos
    LIMIT 1
) AS r ON $3::int2 <= 2
WHERE w.tenant_id = $1
  AND ($5::uuid IS NULL OR w.work_id < $5)
  AND ($2::text IS NULL OR w.scope_id = (SELECT s.scope_id FROM weir.scope AS s WHERE s.tenant_id = $1 AND s.name = $2))
  AND ($4::text IS NULL OR w.binding_id IN (
      SELECT b.binding_id FROM weir.binding AS b WHERE b.tenant_id = $1 AND b.name = $4))
  AND ($3::int2 IS NULL
       OR ($3 > 2 AND w.state = $3)
       OR ($3 <= 2 AND w.state = 1 AND coalesce(r.leased, false) = ($3 = 2)))
ORDER BY w.work_id DESC
LIMIT $6
