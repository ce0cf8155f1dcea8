SET LOCAL lock_timeout = '10s';

DROP TABLE weir.causal_refusal, weir.causal_bucket, weir.causal_root;
