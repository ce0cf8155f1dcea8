SET LOCAL lock_timeout = '10s';

DROP TABLE weir.archive, weir.bulk_item, weir.bulk_job, weir.audit, weir.request;
