SET LOCAL lock_timeout = '10s';

DROP TABLE weir.timer, weir.wait_sub, weir.wait, weir.gate_slot, weir.intent, weir.attempt, weir.ready,
    weir.input, weir.work_key, weir.work;
DROP SEQUENCE weir.ready_pos;
