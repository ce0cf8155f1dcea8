-- routing.write_decisions: the record and the checkpoint in one statement (r12).
WITH u AS MATERIALIZED (
    SELECT *
      FROM unnest($3::int8[], $4::uuid[], $5::int2[], $6::uuid[], $7::int4[], $8::int4[], $9::int2[],
                  $10::text[], $11::text[], $12::int2[])
           AS u(seq, uid, disposition, work_id, route_id, binding_id, policy, reason, error, attempts)
), e AS (
    UPDATE weir.event e
       SET disposition = u.disposition, work_id = u.work_id, route_id = u.route_id, binding_id = u.binding_id,
           generation = $13, policy = u.policy, reason = u.reason, error = u.error, attempts = u.attempts
      FROM u
     CROSS JOIN LATERAL (SELECT ctid AS at
                           FROM weir.event
                          WHERE tenant_id = $1 AND uid = u.uid
                          LIMIT 1) l
     WHERE e.ctid = l.at
), d AS (
    DELETE FROM weir.pending p
     USING (SELECT l.ctid AS at
              FROM u
             CROSS JOIN LATERAL (SELECT ctid
                                   FROM weir.pending
                                  WHERE tenant_id = $1 AND scope_id = $2 AND seq = u.seq
                                  LIMIT 1) l) gone
     WHERE p.ctid = gone.at
), dk AS (
    DELETE FROM weir.pending_key k
     USING (SELECT l.ctid AS at
              FROM unnest($14::text[], $15::int8[]) AS x(key, seq)
             CROSS JOIN LATERAL (SELECT ctid
                                   FROM weir.pending_key
                                  WHERE tenant_id = $1 AND scope_id = $2 AND key = x.key AND seq = x.seq
                                  LIMIT 1) l) gone
     WHERE k.ctid = gone.at
)
INSERT INTO weir.route_refusal (tenant_id, uid, packed, truncated)
SELECT $1, uid, packed, truncated FROM unnest($16::uuid[], $17::bytea[], $18::bool[]) AS r(uid, packed, truncated)
