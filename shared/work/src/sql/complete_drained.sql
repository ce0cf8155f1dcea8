-- work.complete_drained
-- $1 tenant, $2 sorted work ids, locked, ready and without a ready row
WITH drained AS MATERIALIZED (
    SELECT w.at
    FROM unnest($2::uuid[]) AS u (work_id)
    CROSS JOIN LATERAL (
        SELECT l.ctid AS at
        FROM weir.work AS l
        WHERE l.tenant_id = $1 AND l.work_id = u.work_id AND l.state = 1 AND l.queue_pos IS NULL
          AND NOT EXISTS (
              SELECT
              FROM weir.input AS i
              WHERE i.tenant_id = $1 AND i.work_id = u.work_id AND i.n > l.consumed
                AND (i.taken_by IS NULL OR i.taken_by = 0))
          AND NOT EXISTS (
              SELECT
              FROM weir.pending_key AS k
              CROSS JOIN LATERAL (
                  SELECT
                  FROM weir.pending AS p
                  WHERE p.tenant_id = $1 AND p.scope_id = l.scope_id AND p.seq = k.seq AND p.state <> 4
                  LIMIT 1
              ) AS p
              WHERE k.tenant_id = $1 AND k.scope_id = l.scope_id AND k.key = chr(1) || u.work_id::text)
        LIMIT 1
    ) AS w
)
UPDATE weir.work AS w
SET state = 5, revision = w.revision + 1, ended_at = weir.clock()
FROM drained
WHERE w.ctid = drained.at
RETURNING w.work_id
