-- lifecycle.offer_intents
-- $1 tenant, $2 work, $3 epoch: the open intents in queue order, offered from now on
WITH open AS MATERIALIZED (
    SELECT i.ctid AS at, i.uid, i.kind, i.n, i.state
    FROM weir.intent AS i
    WHERE i.tenant_id = $1 AND i.work_id = $2 AND i.epoch = $3 AND i.state IN (1, 2)
), offered AS (
    UPDATE weir.intent AS t
    SET state = 2
    FROM open
    WHERE t.ctid = open.at AND open.state = 1 AND t.state = 1
)
SELECT open.uid, open.kind
FROM open
ORDER BY open.n
