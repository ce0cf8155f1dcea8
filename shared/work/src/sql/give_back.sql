-- work.give_back
-- $1 tenant, $2 work, $3 binding, $4 priority, $5 pos, $6 tries, $7 not before
WITH back AS (
    UPDATE weir.ready
    SET owner = '', tries = $6, lease_until = coalesce($7, '-infinity')
    WHERE tenant_id = $1 AND binding_id = $3 AND priority = $4 AND pos = $5
)
UPDATE weir.work
SET revision = revision + 1
WHERE tenant_id = $1 AND work_id = $2
