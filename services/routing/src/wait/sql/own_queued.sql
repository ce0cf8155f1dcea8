-- routing.own_queued: the first accepted input of a Work that is not consumed.
SELECT i.uid, i.accepted_at
  FROM weir.work w
 CROSS JOIN LATERAL (SELECT uid, accepted_at
                       FROM weir.input
                      WHERE tenant_id = $1 AND work_id = $2 AND n > w.consumed AND taken_by IS NULL
                      ORDER BY accepted_at, uid
                      LIMIT 1) i
 WHERE w.tenant_id = $1 AND w.work_id = $2
