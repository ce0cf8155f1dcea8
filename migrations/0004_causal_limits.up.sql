-- Depth and rate of causal trees.
SET LOCAL lock_timeout = '10s';

-- Pinned at the first derived acceptance, for ever (rule c03).
CREATE TABLE weir.causal_root (
    tenant_id    int8 NOT NULL,
    root_uid     uuid NOT NULL,
    max_depth    int2 NOT NULL,
    per_minute   int4 NOT NULL,
    pinned_at    timestamptz NOT NULL,
    braked_at    timestamptz,
    brake_actor  text,
    brake_reason text,
    CONSTRAINT causal_root_pkey PRIMARY KEY (tenant_id, root_uid)
);

CREATE TABLE weir.causal_bucket (
    tenant_id   int8 NOT NULL,
    root_uid    uuid NOT NULL,
    minute      timestamptz NOT NULL,
    spent       int4 NOT NULL,
    granted     int4 NOT NULL,                      -- by the last statement: RETURNING cannot see the old row
    CONSTRAINT causal_bucket_pkey PRIMARY KEY (tenant_id, root_uid, minute),
    CONSTRAINT causal_bucket_spent CHECK (spent >= 0)
) WITH (fillfactor = 50);

-- One row stands for all refusals of a root, minute and cause (rule c05).
CREATE TABLE weir.causal_refusal (
    tenant_id   int8 NOT NULL,
    root_uid    uuid NOT NULL,
    minute      timestamptz NOT NULL,
    code        int2 NOT NULL,
    refused     int8 NOT NULL,
    limit_value int4 NOT NULL,
    parent_uid  uuid NOT NULL,
    depth       int4 NOT NULL,
    type        text NOT NULL,
    CONSTRAINT causal_refusal_pkey PRIMARY KEY (tenant_id, root_uid, minute, code),
    CONSTRAINT causal_refusal_code CHECK (code BETWEEN 1 AND 4)
) WITH (fillfactor = 50);
-- Newest refusals of a tenant, for operators.
CREATE INDEX causal_refusal_minute_idx ON weir.causal_refusal (tenant_id, minute, root_uid, code);
