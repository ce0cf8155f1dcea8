SET LOCAL lock_timeout = '10s';

DROP TABLE weir.route_refusal, weir.route_claim, weir.pending_key, weir.pending, weir.event_body,
    weir.event, weir.scope_head;
DROP FUNCTION weir.make_partitions(date, int4);
