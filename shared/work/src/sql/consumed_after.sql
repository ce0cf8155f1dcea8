-- work.consumed_after
-- $1 tenant, $2 work, $3 last input presented, $4 highest queue number given: everything up to the first input that
-- nobody took. What is bound to this attempt's wake is taken by it.
SELECT coalesce(
    (SELECT i.n - 1
     FROM weir.input AS i
     WHERE i.tenant_id = $1 AND i.work_id = $2 AND i.n > $3 AND i.taken_by IS NULL
     ORDER BY i.n
     LIMIT 1),
    $4)
