-- routing.own_pending: whether an event is the Work's own and unrouted: then it is for routing to wake it.
SELECT EXISTS (
    SELECT
      FROM weir.event e
      JOIN weir.pending p ON p.tenant_id = e.tenant_id AND p.scope_id = e.scope_id AND p.seq = e.seq
     WHERE e.tenant_id = $1 AND e.uid = $4 AND e.scope_id = $2 AND p.state NOT IN (4, 5)
       AND EXISTS (SELECT
                     FROM weir.pending_key k
                    WHERE k.tenant_id = $1 AND k.scope_id = $2 AND k.key = $3 AND k.seq = e.seq))
