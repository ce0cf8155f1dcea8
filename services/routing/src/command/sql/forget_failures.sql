-- routing.forget_failures: the next pass tries a locked event at once; a brake is not the operator's to lift here.
UPDATE weir.pending
   SET state = CASE WHEN state = 5 THEN state ELSE 1 END, failures = 0, crashes = 0, next_try = '-infinity',
       first_failed_at = NULL, tried_generation = 0, last_code = NULL, last_error = NULL, last_route = NULL, gave_up = false,
       hold_reason = NULL, hold_work = NULL, hold_attempt = NULL, conflict_works = NULL
 WHERE tenant_id = $1 AND scope_id = $2 AND seq = $3
