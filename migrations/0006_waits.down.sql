SET LOCAL lock_timeout = '10s';

DROP INDEX weir.wait_sub_ended_idx, weir.wait_sub_seen_idx, weir.wait_sub_work_idx, weir.wait_due_idx, weir.wait_asked_idx,
    weir.wait_open_key;
ALTER TABLE weir.wait_sub DROP COLUMN seen_at;
ALTER TABLE weir.wait
    DROP CONSTRAINT wait_state,
    DROP COLUMN refusal,
    DROP COLUMN trigger_uid,
    DROP COLUMN checked,
    DROP COLUMN asked;
