-- Repeats, audit, bulk jobs and the archive.
SET LOCAL lock_timeout = '10s';

-- Answers of mutating requests, kept 24 h (rule o08).
CREATE TABLE weir.request (
    tenant_id   int8 NOT NULL,
    actor       text COLLATE "C" NOT NULL,
    method      text COLLATE "C" NOT NULL,
    request_id  text COLLATE "C" NOT NULL,
    content     uuid NOT NULL,
    response    bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    CONSTRAINT request_pkey PRIMARY KEY (tenant_id, actor, method, request_id)
);
-- Old answers, for the sweep.
CREATE INDEX request_created_idx ON weir.request (tenant_id, created_at);

-- Every operator action once, by its control event.
CREATE TABLE weir.audit (
    tenant_id    int8 NOT NULL,
    uid          uuid NOT NULL,                     -- the control event; time-ordered
    action       text COLLATE "C" NOT NULL,         -- its type
    actor        text COLLATE "C" NOT NULL,
    target       uuid,                              -- event or Work
    reason       text NOT NULL,
    request_id   text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL,
    CONSTRAINT audit_pkey PRIMARY KEY (tenant_id, uid)
);

-- Planned, confirmed, resumable operations on many things (rule r33).
CREATE TABLE weir.bulk_job (
    tenant_id   int8 NOT NULL,
    job_id      uuid NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    filter      text NOT NULL,
    digest      uuid NOT NULL,
    actor       text NOT NULL,
    reason      text NOT NULL,
    state       int2 NOT NULL DEFAULT 1,            -- 1 planned, 2 running, 3 done, 4 cancelled
    total       int8 NOT NULL,
    created_at  timestamptz NOT NULL,
    CONSTRAINT bulk_job_pkey PRIMARY KEY (tenant_id, job_id)
);
CREATE TABLE weir.bulk_item (
    tenant_id   int8 NOT NULL,
    job_id      uuid NOT NULL,
    target      uuid NOT NULL,
    outcome     int2,                               -- NULL: not yet; 1 done, 2 refused
    CONSTRAINT bulk_item_pkey PRIMARY KEY (tenant_id, job_id, target)
);

-- Payloads moved aside before their day is dropped (rule l16).
CREATE TABLE weir.archive (
    tenant_id   int8 NOT NULL,
    uid         uuid NOT NULL,
    scope_id    int4 NOT NULL,
    seq         int8 NOT NULL,
    accepted_at timestamptz NOT NULL,
    archived_at timestamptz NOT NULL,
    attributes  bytea NOT NULL,
    keys        text[] COLLATE "C" NOT NULL,
    target_work uuid,
    payload     bytea,
    is_text     bool NOT NULL,
    CONSTRAINT archive_pkey PRIMARY KEY (tenant_id, uid)
);
