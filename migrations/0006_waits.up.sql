-- Waits: who is to be checked, found without reading those that are not (rules l10, r17, r44).
SET LOCAL lock_timeout = '10s';

-- A check is due while `asked` is ahead of `checked`: counters, so that asking during a check is not lost.
-- A wait asks when it is opened, when its Work is released, and when a Work that it waits for ends.
ALTER TABLE weir.wait
    ADD COLUMN asked int8 NOT NULL DEFAULT 1,
    ADD COLUMN checked int8 NOT NULL DEFAULT 0,
    ADD COLUMN trigger_uid uuid,                    -- of the attempt that parked: parent of a bridge without a winner
    ADD COLUMN refusal int2,                        -- causal refusal that held the Work (rule l11)
    ADD CONSTRAINT wait_state CHECK (state BETWEEN 1 AND 5);

-- How far the events of the scope were seen, in time: where reading goes on in the bodies.
ALTER TABLE weir.wait_sub ADD COLUMN seen_at timestamptz NOT NULL DEFAULT '-infinity';

-- A Work waits for one thing at a time.
CREATE UNIQUE INDEX wait_open_key ON weir.wait (tenant_id, work_id) WHERE state = 1;
CREATE INDEX wait_asked_idx ON weir.wait (tenant_id, work_id, n) WHERE state = 1 AND asked > checked;
CREATE INDEX wait_due_idx ON weir.wait (tenant_id, due_at) WHERE state = 1 AND due_at IS NOT NULL;

-- Subscriptions of a Work, removed with its wait.
CREATE INDEX wait_sub_work_idx ON weir.wait_sub (tenant_id, work_id, n);
-- Subscriptions of a scope that did not see its newest events; `seen_seq` is the last position seen, and the
-- highest number while the Work is held.
CREATE INDEX wait_sub_seen_idx ON weir.wait_sub (tenant_id, scope_id, seen_seq) WHERE kind = 2;
-- Who waits for the end of a Work.
CREATE INDEX wait_sub_ended_idx ON weir.wait_sub (tenant_id, ended_work) WHERE ended_work IS NOT NULL;
