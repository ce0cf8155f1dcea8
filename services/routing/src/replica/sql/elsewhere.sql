-- routing.handler_elsewhere: whether another live process has a handler and runs this generation of the tenant, or
-- will: it has not loaded the tenant, or the generation is younger than what makes a silent process dead.
SELECT EXISTS (
    SELECT 1
      FROM weir.replica p
      LEFT JOIN weir.replica r ON r.tenant_id = $3 AND r.replica = p.replica
     WHERE p.tenant_id = 0 AND p.replica <> $1
       AND p.seen_at > weir.clock() - $2 * interval '1 millisecond'
       AND $5::text = ANY (p.handlers)
       AND (r.generation IS NULL
            OR r.generation >= $4
            OR EXISTS (SELECT 1
                         FROM weir.generation g
                        WHERE g.tenant_id = $3 AND g.generation = $4
                          AND g.created_at > weir.clock() - $2 * interval '1 millisecond')))
