-- routing.suspect: locked events that were in evaluation when their process ended; they are decided alone from now.
UPDATE weir.pending
   SET crashes = greatest(crashes, 1)
 WHERE tenant_id = $1 AND scope_id = $2 AND seq = ANY ($3::int8[])
