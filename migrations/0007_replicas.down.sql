SET LOCAL lock_timeout = '10s';

ALTER TABLE weir.pending DROP COLUMN gave_up;
ALTER TABLE weir.route_claim DROP COLUMN alone;
