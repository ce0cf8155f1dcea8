-- routing.lock_pending: the rows that still stand, locked in order, with the failures counted of each.
SELECT p.seq, p.failures
  FROM unnest($3::int8[]) AS u(seq)
 CROSS JOIN LATERAL (SELECT seq, failures
                       FROM weir.pending
                      WHERE tenant_id = $1 AND scope_id = $2 AND seq = u.seq
                        FOR UPDATE) p
