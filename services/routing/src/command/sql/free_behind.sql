-- routing.free_behind: what stood behind a deferred event is looked at again; what is still blocked is marked again.
UPDATE weir.pending p
   SET state = 1, hold_reason = NULL, hold_work = NULL, hold_attempt = NULL
  FROM (SELECT ctid AS at
          FROM weir.pending
         WHERE tenant_id = $1 AND scope_id = $2 AND state = 3 AND hold_reason = $3
           FOR UPDATE SKIP LOCKED) behind
 WHERE p.ctid = behind.at
