-- work.apply_effects: new Works, grown Works, their ready rows, inputs, intents and keys, set-based.
-- Locks are held: the Works' and, for keys, the scope's order lock. Keys are sorted; the counts say whether a
-- key was taken meanwhile.
WITH nw AS (
    INSERT INTO weir.work (tenant_id, work_id, scope_id, state, binding_id, created_binding, priority, queue_pos,
                           last_input, cause_uid, created_at)
    SELECT $1, work_id, $2, 1, binding_id, binding_id, priority, queue_pos, last_input, cause_uid, $3
      FROM unnest($4::uuid[], $5::int4[], $6::int2[], $7::int8[], $8::int8[], $9::uuid[])
           AS u(work_id, binding_id, priority, queue_pos, last_input, cause_uid)
), gw AS (
    UPDATE weir.work w
       SET revision = w.revision + 1,
           last_input = u.last_input,
           binding_id = CASE WHEN u.queue_pos IS NULL THEN w.binding_id ELSE u.binding_id END,
           priority = CASE WHEN u.queue_pos IS NULL THEN w.priority ELSE u.priority END,
           queue_pos = coalesce(u.queue_pos, w.queue_pos)
      FROM unnest($10::uuid[], $11::int4[], $12::int2[], $13::int8[], $14::int8[])
           AS u(work_id, binding_id, priority, queue_pos, last_input)
     CROSS JOIN LATERAL (SELECT ctid AS at
                           FROM weir.work
                          WHERE tenant_id = $1 AND work_id = u.work_id
                          LIMIT 1) l
     WHERE w.ctid = l.at
), rd AS (
    INSERT INTO weir.ready (tenant_id, binding_id, priority, pos, work_id, epoch, attempt, tries, input_from, input_to)
    SELECT $1, binding_id, -priority, pos, work_id, epoch, attempt, tries, input_from, input_from - 1
      FROM unnest($15::int4[], $16::int2[], $17::int8[], $18::uuid[], $19::int8[], $20::int4[], $21::int2[], $22::int8[])
           AS u(binding_id, priority, pos, work_id, epoch, attempt, tries, input_from)
), inp AS (
    INSERT INTO weir.input (tenant_id, work_id, n, uid, seq, accepted_at, bytes, binding_id)
    SELECT $1, work_id, n, uid, seq, accepted_at, bytes, binding_id
      FROM unnest($23::uuid[], $24::int8[], $25::uuid[], $26::int8[], $27::timestamptz[], $28::int4[], $29::int4[])
           AS u(work_id, n, uid, seq, accepted_at, bytes, binding_id)
), intent AS (
    INSERT INTO weir.intent (tenant_id, work_id, epoch, uid, kind, n, attempt, created_at)
    SELECT $1, work_id, epoch, uid, kind, n, attempt, $3
      FROM unnest($30::uuid[], $31::int8[], $32::uuid[], $33::int2[], $34::int8[], $35::int4[])
           AS u(work_id, epoch, uid, kind, n, attempt)
        ON CONFLICT DO NOTHING
), keyed AS (
    INSERT INTO weir.work_key (tenant_id, scope_id, key, work_id)
    SELECT $1, $2, key, work_id
      FROM unnest($36::text[], $37::uuid[]) AS u(key, work_id)
     ORDER BY key COLLATE "C"
        ON CONFLICT DO NOTHING
    RETURNING 1
), mark AS (
    INSERT INTO weir.pending_key (tenant_id, scope_id, key, seq)
    SELECT DISTINCT $1, $2, chr(1) || u.work_id::text, p.seq
      FROM unnest($36::text[], $37::uuid[]) AS u(key, work_id)
     CROSS JOIN LATERAL (SELECT seq
                           FROM weir.pending_key
                          WHERE tenant_id = $1 AND scope_id = $2 AND key = u.key) p
        ON CONFLICT DO NOTHING
)
SELECT count(*) FROM keyed
