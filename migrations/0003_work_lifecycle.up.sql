-- The Work aggregate, the ready queue that is the lease, attempts, inputs, waits and timers.
SET LOCAL lock_timeout = '10s';

CREATE TABLE weir.work (
    tenant_id       int8 NOT NULL,
    work_id         uuid NOT NULL,
    scope_id        int4 NOT NULL,
    state           int2 NOT NULL,                  -- running is derived from the ready row, never stored
    revision        int8 NOT NULL DEFAULT 1,        -- rises with all that routing can see, but a claim
    binding_id      int4 NOT NULL,                  -- the one it runs on next (rule r14)
    created_binding int4 NOT NULL,
    rebound_after   int4,                           -- attempt number that the last rebind followed
    priority        int2 NOT NULL DEFAULT 0,
    queue_pos       int8,                           -- its ready row; NULL: none
    epoch           int8 NOT NULL DEFAULT 0,        -- as of the last attempt's end; the ready row is ahead
    attempts        int4 NOT NULL DEFAULT 0,
    tries           int2 NOT NULL DEFAULT 0,
    last_input      int8 NOT NULL DEFAULT 0,        -- highest queue number given
    consumed        int8 NOT NULL DEFAULT 0,        -- inputs up to here are consumed
    held_reason     text,
    parent_id       uuid,
    predecessor_id  uuid,
    cause_uid       uuid,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    CONSTRAINT work_pkey PRIMARY KEY (tenant_id, work_id),
    CONSTRAINT work_state CHECK (state IN (1, 3, 4, 5, 6, 7)),
    CONSTRAINT work_held CHECK ((state = 4) = (held_reason IS NOT NULL)),
    CONSTRAINT work_ended CHECK ((state >= 5) = (ended_at IS NOT NULL)),
    CONSTRAINT work_queued CHECK (queue_pos IS NULL OR state = 1),
    CONSTRAINT work_inputs CHECK (consumed <= last_input)
) WITH (fillfactor = 50);
-- One successor per predecessor (rule l09).
CREATE UNIQUE INDEX work_predecessor_key ON weir.work (tenant_id, predecessor_id) WHERE predecessor_id IS NOT NULL;
-- Children of a Work (rule l18).
CREATE INDEX work_parent_idx ON weir.work (tenant_id, parent_id) WHERE parent_id IS NOT NULL;
-- Held Work, for operators.
CREATE INDEX work_held_idx ON weir.work (tenant_id, scope_id, work_id) WHERE state = 4;

-- Owned for ever (rule r08).
CREATE TABLE weir.work_key (
    tenant_id   int8 NOT NULL,
    scope_id    int4 NOT NULL,
    key         text COLLATE "C" NOT NULL,
    work_id     uuid NOT NULL,
    CONSTRAINT work_key_pkey PRIMARY KEY (tenant_id, scope_id, key)
);
-- Keys of a Work, for reads and snapshots.
CREATE INDEX work_key_work_idx ON weir.work_key (tenant_id, work_id);

-- Inputs in queue order. Consumption is work.consumed and ready.input_from..input_to; only an input taken
-- out of order (acknowledged, rule l05) is marked itself.
CREATE TABLE weir.input (
    tenant_id   int8 NOT NULL,
    work_id     uuid NOT NULL,
    n           int8 NOT NULL,
    uid         uuid NOT NULL,
    seq         int8 NOT NULL,
    accepted_at timestamptz NOT NULL,
    bytes       int4 NOT NULL,
    binding_id  int4 NOT NULL,
    taken_by    int4,
    CONSTRAINT input_pkey PRIMARY KEY (tenant_id, work_id, n)
);

-- One lean row per claimable or running Work is the lease. Claim, renewal and takeover are HOT updates:
-- no other index, every column NOT NULL at full width.
CREATE SEQUENCE weir.ready_pos INCREMENT BY 1024;
CREATE TABLE weir.ready (
    tenant_id    int8 NOT NULL,
    binding_id   int4 NOT NULL,
    priority     int2 NOT NULL,                     -- ascending is claimed first: the negated priority
    pos          int8 NOT NULL,
    work_id      uuid NOT NULL,
    epoch        int8 NOT NULL,
    attempt      int4 NOT NULL,
    tries        int2 NOT NULL,
    capabilities int2 NOT NULL DEFAULT 0,
    owner        text NOT NULL DEFAULT '',          -- '': not leased
    lease_until  timestamptz NOT NULL DEFAULT '-infinity',  -- not leased: not to be claimed before
    claimed_at   timestamptz NOT NULL DEFAULT '-infinity',
    lease        interval NOT NULL DEFAULT '30 seconds',
    generation   int8 NOT NULL DEFAULT 0,
    registration int8 NOT NULL DEFAULT 0,
    digest       uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    trigger_uid  uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    bridge_n     int8 NOT NULL DEFAULT 0,
    input_from   int8 NOT NULL,                     -- first input not consumed
    input_to     int8 NOT NULL,                     -- last input presented; input_from - 1: none
    CONSTRAINT ready_pkey PRIMARY KEY (tenant_id, binding_id, priority, pos)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- Written once, when the attempt ends, with the answer that its end was given (rule o08).
CREATE TABLE weir.attempt (
    tenant_id    int8 NOT NULL,
    work_id      uuid NOT NULL,
    number       int4 NOT NULL,
    epoch        int8 NOT NULL,
    owner        text NOT NULL,
    binding_id   int4 NOT NULL,
    generation   int8 NOT NULL,
    registration int8 NOT NULL,
    capabilities int2 NOT NULL,
    digest       uuid NOT NULL,
    trigger_uid  uuid NOT NULL,
    claimed_at   timestamptz NOT NULL,
    ended_at     timestamptz NOT NULL,
    outcome      int2 NOT NULL,
    input_from   int8 NOT NULL,
    input_to     int8 NOT NULL,
    content      uuid,                              -- digest of the ending request
    answer_state int2,
    answer_at    timestamptz,
    result       text,
    error        text,
    CONSTRAINT attempt_pkey PRIMARY KEY (tenant_id, work_id, number),
    CONSTRAINT attempt_outcome CHECK (outcome BETWEEN 1 AND 7)
);

-- Requests to a running attempt; a new epoch voids them (rule r09).
CREATE TABLE weir.intent (
    tenant_id   int8 NOT NULL,
    work_id     uuid NOT NULL,
    epoch       int8 NOT NULL,
    uid         uuid NOT NULL,
    kind        int2 NOT NULL,
    n           int8 NOT NULL,
    attempt     int4 NOT NULL,
    state       int2 NOT NULL DEFAULT 1,            -- 1 recorded, 2 offered, 3 acknowledged, 4 void
    created_at  timestamptz NOT NULL,
    CONSTRAINT intent_pkey PRIMARY KEY (tenant_id, work_id, epoch, uid, kind)
);

-- Exact concurrency limits without standing counters: a slot is free when no live ready row has its key
-- and epoch (rule l15).
CREATE TABLE weir.gate_slot (
    tenant_id   int8 NOT NULL,
    gate        text COLLATE "C" NOT NULL,
    slot        int4 NOT NULL,
    binding_id  int4 NOT NULL DEFAULT 0,
    priority    int2 NOT NULL DEFAULT 0,
    pos         int8 NOT NULL DEFAULT 0,
    epoch       int8 NOT NULL DEFAULT 0,
    CONSTRAINT gate_slot_pkey PRIMARY KEY (tenant_id, gate, slot)
);

-- Parked attempts (rules l10, l11, r17).
CREATE TABLE weir.wait (
    tenant_id   int8 NOT NULL,
    work_id     uuid NOT NULL,
    n           int4 NOT NULL,
    attempt     int4 NOT NULL,
    since       timestamptz NOT NULL,
    due_at      timestamptz,
    state       int2 NOT NULL DEFAULT 1,            -- 1 open, 2 won, 3 timed out, 4 void, 5 refused
    winner_uid  uuid,
    bridge_uid  uuid,
    CONSTRAINT wait_pkey PRIMARY KEY (tenant_id, work_id, n)
);
-- Waits that an event won (rule r44).
CREATE INDEX wait_winner_idx ON weir.wait (tenant_id, winner_uid) WHERE winner_uid IS NOT NULL;

CREATE TABLE weir.wait_sub (
    tenant_id   int8 NOT NULL,
    scope_id    int4 NOT NULL,
    work_id     uuid NOT NULL,
    n           int4 NOT NULL,
    item        int2 NOT NULL,
    kind        int2 NOT NULL,                      -- 1 own input, 2 event, 3 ended Work
    condition   text,
    emitter     uuid,
    ended_work  uuid,
    seen_seq    int8 NOT NULL DEFAULT 0,
    CONSTRAINT wait_sub_pkey PRIMARY KEY (tenant_id, scope_id, work_id, n, item)
);

-- Deleted when fired (rule l12).
CREATE TABLE weir.timer (
    tenant_id   int8 NOT NULL,
    due_at      timestamptz NOT NULL,
    timer_id    uuid NOT NULL,
    work_id     uuid,
    scope_id    int4 NOT NULL,
    name        text COLLATE "C" NOT NULL,
    parent_uid  uuid,
    type        text COLLATE "C" NOT NULL,
    payload     bytea,
    is_text     bool NOT NULL DEFAULT true,
    CONSTRAINT timer_pkey PRIMARY KEY (tenant_id, due_at, timer_id)
);
-- Timers of a Work, removed with it.
CREATE UNIQUE INDEX timer_work_key ON weir.timer (tenant_id, work_id, name) WHERE work_id IS NOT NULL;
