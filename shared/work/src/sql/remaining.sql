-- work.remaining
-- $1 tenant, $2 scope, $3 work, $4 consumed. A bridge and its winner (taken by 0) are not in the queue: who completes
-- consumes them, who resumes a Work asks for them (see open_bridge.sql).
SELECT
    (SELECT p.uid
     FROM weir.pending_key AS k
     CROSS JOIN LATERAL (
         SELECT l.uid
         FROM weir.pending AS l
         WHERE l.tenant_id = $1 AND l.scope_id = $2 AND l.seq = k.seq AND l.state NOT IN (3, 4)
         LIMIT 1
     ) AS p
     WHERE k.tenant_id = $1 AND k.scope_id = $2 AND k.key = chr(1) || $3::uuid::text
     ORDER BY k.seq
     LIMIT 1) AS unrouted,
    (SELECT i.binding_id
     FROM weir.input AS i
     WHERE i.tenant_id = $1 AND i.work_id = $3 AND i.n > $4 AND i.taken_by IS NULL
     ORDER BY i.n
     LIMIT 1) AS next,
    EXISTS (
        SELECT
        FROM weir.pending_key AS k
        CROSS JOIN LATERAL (
            SELECT
            FROM weir.pending AS l
            WHERE l.tenant_id = $1 AND l.scope_id = $2 AND l.seq = k.seq AND l.state = 3
            LIMIT 1
        ) AS p
        WHERE k.tenant_id = $1 AND k.scope_id = $2 AND k.key = chr(1) || $3::uuid::text
    ) AS deferred
