-- The one schema, its clock, tenants and their configuration.
-- `tenant_id` leads every key and every index, so that the schema shards by tenant.
SET LOCAL lock_timeout = '10s';

CREATE SCHEMA weir;

-- Time is the database's (rule a03 and others). Every statement asks this function, so that a test
-- database can put another clock in its place; here it is the plain clock and is inlined.
CREATE FUNCTION weir.clock() RETURNS timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT clock_timestamp()';

CREATE TABLE weir.tenant (
    tenant_id   int8 GENERATED ALWAYS AS IDENTITY,
    name        text COLLATE "C" NOT NULL,
    generation  int8 NOT NULL DEFAULT 0,            -- the current one; 0 before the first
    created_at  timestamptz NOT NULL,
    CONSTRAINT tenant_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT tenant_name_key UNIQUE (name)        -- verified identity -> tenant
);

-- One immutable publication (compare-and-set under the tenant's configuration lock).
CREATE TABLE weir.generation (
    tenant_id   int8 NOT NULL,
    generation  int8 NOT NULL,
    digest      bytea NOT NULL,                     -- SHA-256 of the canonical form
    document    text NOT NULL,                      -- as published
    actor       text NOT NULL,
    created_at  timestamptz NOT NULL,
    CONSTRAINT generation_pkey PRIMARY KEY (tenant_id, generation),
    CONSTRAINT generation_positive CHECK (generation > 0)
);

-- Names keep their numbers over generations, so that hot rows carry four bytes and not names.
CREATE TABLE weir.scope (
    tenant_id   int8 NOT NULL,
    scope_id    int4 NOT NULL,
    name        text COLLATE "C" NOT NULL,
    generation  int8 NOT NULL,                      -- the newest that has it
    CONSTRAINT scope_pkey PRIMARY KEY (tenant_id, scope_id),
    CONSTRAINT scope_name_key UNIQUE (tenant_id, name)
);

-- A binding is one scope's effective binding of one name: a lane of the ready queue.
CREATE TABLE weir.binding (
    tenant_id   int8 NOT NULL,
    binding_id  int4 NOT NULL,
    scope_id    int4 NOT NULL,
    name        text COLLATE "C" NOT NULL,
    CONSTRAINT binding_pkey PRIMARY KEY (tenant_id, binding_id),
    CONSTRAINT binding_name_key UNIQUE (tenant_id, name, scope_id)   -- a claimer's lanes by name
);

CREATE TABLE weir.route (
    tenant_id   int8 NOT NULL,
    route_id    int4 NOT NULL,
    scope_id    int4 NOT NULL,
    slot        text COLLATE "C" NOT NULL,
    CONSTRAINT route_pkey PRIMARY KEY (tenant_id, route_id),
    CONSTRAINT route_slot_key UNIQUE (tenant_id, scope_id, slot)
);

-- What other contexts need of a generation, resolved: they read no documents.
CREATE TABLE weir.scope_limits (
    tenant_id   int8 NOT NULL,
    generation  int8 NOT NULL,
    scope_id    int4 NOT NULL,
    max_depth   int2 NOT NULL,
    per_minute  int4 NOT NULL,
    brake_after int4,                               -- refusals a minute; NULL: never by itself
    CONSTRAINT scope_limits_pkey PRIMARY KEY (tenant_id, generation, scope_id),
    CONSTRAINT scope_limits_bounds CHECK (max_depth BETWEEN 0 AND 1024 AND per_minute >= 0)
);

CREATE TABLE weir.binding_settings (
    tenant_id    int8 NOT NULL,
    generation   int8 NOT NULL,
    binding_id   int4 NOT NULL,
    executor     text COLLATE "C",                  -- NULL: queue only
    capabilities int2 NOT NULL,                     -- claimed: 1 inject, 2 interrupt
    lease        interval NOT NULL,
    max_attempts int2 NOT NULL,
    priority     int2 NOT NULL,
    settings     text NOT NULL,                     -- canonical JSON of the whole binding
    CONSTRAINT binding_settings_pkey PRIMARY KEY (tenant_id, generation, binding_id),
    CONSTRAINT binding_settings_bounds CHECK (max_attempts > 0 AND lease > '0s')
);

-- Append only; the current registration is the highest revision (rule r11).
CREATE TABLE weir.executor_registration (
    tenant_id    int8 NOT NULL,
    executor     text COLLATE "C" NOT NULL,
    revision     int8 NOT NULL,
    capabilities int2 NOT NULL,
    actor        text NOT NULL,
    created_at   timestamptz NOT NULL,
    CONSTRAINT executor_registration_pkey PRIMARY KEY (tenant_id, executor, revision)
);

-- Which routing replica runs which generation with which handlers (rule r23).
CREATE TABLE weir.replica (
    tenant_id   int8 NOT NULL,
    replica     uuid NOT NULL,
    generation  int8 NOT NULL,
    handlers    text[] NOT NULL DEFAULT '{}',
    seen_at     timestamptz NOT NULL,
    CONSTRAINT replica_pkey PRIMARY KEY (tenant_id, replica)
);
