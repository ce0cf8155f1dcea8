-- ledger.append: identities sorted; the count says whether another scope took one meanwhile.
WITH u AS MATERIALIZED (
    SELECT *
      FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::int8[], $9::text[],
                  $10::uuid[], $11::uuid[], $12::uuid[], $13::int2[],
                  $14::int2[], $15::uuid[], $16::int4[], $17::int8[], $18::text[],
                  $19::bytea[], $20::text[], $21::uuid[], $22::bytea[], $23::bool[])
           AS u(uid, source, id, type, content, seq, actor,
                copy_of, root_uid, parent_uid, depth,
                disposition, work_id, binding_id, generation, reason,
                attributes, keys, target_work, payload, is_text)
), e AS (
    INSERT INTO weir.event (tenant_id, uid, source, id, type, content, scope_id, seq, accepted_at, actor,
                            copy_of, root_uid, parent_uid, depth,
                            disposition, work_id, binding_id, generation, reason)
    SELECT $1, uid, source, id, type, content, $2, seq, $24, actor, copy_of, root_uid, parent_uid, depth,
           disposition, work_id, binding_id, generation, reason
      FROM u
     ORDER BY source COLLATE "C", id COLLATE "C"
        ON CONFLICT (tenant_id, source, id) DO NOTHING
    RETURNING 1
), b AS (
    INSERT INTO weir.event_body (tenant_id, scope_id, accepted_at, seq, uid, attributes, keys, target_work,
                                 payload, is_text)
    SELECT $1, $2, $24, seq, uid, attributes,
           coalesce(string_to_array(nullif(keys, ''), E'\x1f'), '{}'), target_work, payload, is_text
      FROM u
), h AS (
    INSERT INTO weir.scope_head (tenant_id, scope_id, first_seq, last_seq, last_at)
    VALUES ($1, $2, $25, $26, $24)
), p AS (
    INSERT INTO weir.pending (tenant_id, scope_id, seq, uid, accepted_at, root_uid, keys, target_work)
    SELECT $1, $2, seq, uid, $24, root_uid,
           coalesce(string_to_array(nullif(keys, ''), E'\x1f'), '{}'), target_work
      FROM u
     WHERE disposition IS NULL
), k AS (
    INSERT INTO weir.pending_key (tenant_id, scope_id, key, seq)
    SELECT DISTINCT $1, $2, key, seq
      FROM unnest($27::text[], $28::int8[]) AS pk(key, seq)
)
SELECT count(*) FROM e
