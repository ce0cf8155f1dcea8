SET LOCAL lock_timeout = '10s';

DROP TABLE weir.replica, weir.executor_registration, weir.binding_settings, weir.scope_limits,
    weir.route, weir.binding, weir.scope, weir.generation, weir.tenant;
DROP FUNCTION weir.clock();
DROP SCHEMA weir;
