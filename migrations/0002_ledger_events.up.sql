-- Accepted events: order, identity, causal place and route record; payloads apart.
SET LOCAL lock_timeout = '10s';

-- The order of a scope, append only: the head is the last row. Keyed by first_seq, so that two writers
-- that missed each other collide instead of overlapping (rule a03).
CREATE TABLE weir.scope_head (
    tenant_id   int8 NOT NULL,
    scope_id    int4 NOT NULL,
    first_seq   int8 NOT NULL,
    last_seq    int8 NOT NULL,
    last_at     timestamptz NOT NULL,
    CONSTRAINT scope_head_pkey PRIMARY KEY (tenant_id, scope_id, first_seq),
    CONSTRAINT scope_head_range CHECK (last_seq >= first_seq AND first_seq > 0)
);

-- Permanent and narrow. The route record is NULL while the event is pending.
CREATE TABLE weir.event (
    tenant_id   int8 NOT NULL,
    uid         uuid NOT NULL,
    source      text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    type        text COLLATE "C" NOT NULL,
    content     uuid NOT NULL,                      -- digest of rule a01
    scope_id    int4 NOT NULL,
    seq         int8 NOT NULL,
    accepted_at timestamptz NOT NULL,
    actor       text COLLATE "C" NOT NULL,
    copy_of     uuid,                               -- first original of a rerouted copy (rule r31)
    root_uid    uuid,                               -- NULL: itself
    parent_uid  uuid,
    depth       int2 NOT NULL DEFAULT 0,
    disposition int2,
    work_id     uuid,
    route_id    int4,
    binding_id  int4,
    generation  int8,
    policy      int2,
    reason      text,
    error       text,
    attempts    int2,
    CONSTRAINT event_pkey PRIMARY KEY (tenant_id, uid),
    CONSTRAINT event_identity_key UNIQUE (tenant_id, source, id),           -- rule a01
    CONSTRAINT event_depth CHECK (depth BETWEEN 0 AND 1024),
    CONSTRAINT event_causal CHECK ((parent_uid IS NULL) = (depth = 0)),
    CONSTRAINT event_disposition CHECK (disposition BETWEEN 1 AND 10)
);
-- The tree of a root (lineage), derived events only.
CREATE INDEX event_root_idx ON weir.event (tenant_id, root_uid, uid) WHERE root_uid IS NOT NULL;
-- Copies of an event: is one live or did one succeed?
CREATE INDEX event_copy_idx ON weir.event (tenant_id, copy_of, uid) WHERE copy_of IS NOT NULL;
-- The rare dispositions that operators list: dropped, unmatched, terminal, skipped, failed.
CREATE INDEX event_disposition_idx ON weir.event (tenant_id, scope_id, disposition, seq) WHERE disposition >= 6;

-- Bulky, by day, dropped by retention. No DEFAULT partition: days are made ahead.
CREATE TABLE weir.event_body (
    tenant_id   int8 NOT NULL,
    scope_id    int4 NOT NULL,
    accepted_at timestamptz NOT NULL,
    seq         int8 NOT NULL,
    uid         uuid NOT NULL,
    attributes  bytea NOT NULL,                     -- envelope without payload, as the ledger encodes it
    keys        text[] COLLATE "C" NOT NULL,
    target_work uuid,
    payload     bytea,                              -- exactly as given (rule a04)
    is_text     bool NOT NULL,
    CONSTRAINT event_body_pkey PRIMARY KEY (tenant_id, scope_id, accepted_at, seq)
) PARTITION BY RANGE (accepted_at);

-- Makes the days' partitions and returns how many were new. A new table is attached, which does not
-- block readers and writers of its neighbours.
CREATE FUNCTION weir.make_partitions(first_day date, days int4) RETURNS int4
    LANGUAGE plpgsql
    AS $$
DECLARE
    d date;
    name text;
    made int4 := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(7301, 0);
    FOR d IN SELECT first_day + g FROM generate_series(0, days - 1) g LOOP
        name := 'event_body_' || to_char(d, 'YYYYMMDD');
        IF to_regclass('weir.' || name) IS NULL THEN
            EXECUTE format('CREATE TABLE weir.%I (LIKE weir.event_body INCLUDING ALL)', name);
            EXECUTE format('ALTER TABLE weir.event_body ATTACH PARTITION weir.%I FOR VALUES FROM (%L) TO (%L)',
                name, d::text || ' 00:00:00+00', (d + 1)::text || ' 00:00:00+00');
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END $$;
SELECT weir.make_partitions((now() AT TIME ZONE 'UTC')::date - 1, 32);

-- The hot set of routing: accepted, not decided.
CREATE TABLE weir.pending (
    tenant_id        int8 NOT NULL,
    scope_id         int4 NOT NULL,
    seq              int8 NOT NULL,
    uid              uuid NOT NULL,
    accepted_at      timestamptz NOT NULL,
    root_uid         uuid,
    keys             text[] COLLATE "C" NOT NULL,
    target_work      uuid,
    state            int2 NOT NULL DEFAULT 1,
    hold_reason      text,
    hold_work        uuid,
    hold_attempt     int4,
    conflict_works   uuid[],
    next_try         timestamptz NOT NULL DEFAULT '-infinity',
    failures         int2 NOT NULL DEFAULT 0,
    crashes          int2 NOT NULL DEFAULT 0,
    first_failed_at  timestamptz,
    tried_generation int8 NOT NULL DEFAULT 0,
    last_code        int2,
    last_error       text,
    last_route       int4,
    CONSTRAINT pending_pkey PRIMARY KEY (tenant_id, scope_id, seq),
    CONSTRAINT pending_state CHECK (state BETWEEN 1 AND 5)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- Who waits for a key, and for a Work: the key chr(1) || work_id stands for a Work that the event names
-- or whose key it carries (no identifier of a caller has a control character).
CREATE TABLE weir.pending_key (
    tenant_id   int8 NOT NULL,
    scope_id    int4 NOT NULL,
    key         text COLLATE "C" NOT NULL,
    seq         int8 NOT NULL,
    CONSTRAINT pending_key_pkey PRIMARY KEY (tenant_id, scope_id, key, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- What a replica decides now; what a dead one left counts as a crash (rule r21).
CREATE TABLE weir.route_claim (
    tenant_id   int8 NOT NULL,
    owner       uuid NOT NULL,
    scope_id    int4 NOT NULL,
    seqs        int8[] NOT NULL,
    claimed_at  timestamptz NOT NULL,
    CONSTRAINT route_claim_pkey PRIMARY KEY (tenant_id, scope_id, owner)
);

-- Routes that declined an unmatched event, packed (rule r13).
CREATE TABLE weir.route_refusal (
    tenant_id   int8 NOT NULL,
    uid         uuid NOT NULL,
    packed      bytea NOT NULL,
    truncated   bool NOT NULL,
    CONSTRAINT route_refusal_pkey PRIMARY KEY (tenant_id, uid)
);
