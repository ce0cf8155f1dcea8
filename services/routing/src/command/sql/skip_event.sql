-- routing.skip_event: the record and the checkpoint of one locked event.
WITH e AS (
    UPDATE weir.event
       SET disposition = 9, work_id = $5, generation = $6, reason = $7
     WHERE tenant_id = $1 AND uid = $4
), d AS (
    DELETE FROM weir.pending WHERE tenant_id = $1 AND scope_id = $2 AND seq = $3
)
DELETE FROM weir.pending_key k
 USING (SELECT l.ctid AS at
          FROM unnest($8::text[]) AS x(key)
         CROSS JOIN LATERAL (SELECT ctid
                               FROM weir.pending_key
                              WHERE tenant_id = $1 AND scope_id = $2 AND key = x.key AND seq = $3
                              LIMIT 1) l) gone
 WHERE k.ctid = gone.at
