-- Replicas and crashes (rules r21, r23).
SET LOCAL lock_timeout = '10s';

-- `weir.replica`: the row of tenant 0 is the process itself, with its handlers and its heartbeat; a tenant's row
-- says which generation of it the process runs.

-- The position that the owner decides alone at this moment: a crash is its doing and nobody else's.
ALTER TABLE weir.route_claim ADD COLUMN alone int8;
-- `crashes` is 0 for an innocent event, 1 for a suspect, and one more for each time that deciding it alone took a
-- process down. `gave_up`: those passed both limits (rule r23), so the next pass routes it `failed` without asking.
ALTER TABLE weir.pending ADD COLUMN gave_up bool NOT NULL DEFAULT false;
