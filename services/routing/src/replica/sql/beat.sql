-- routing.beat: this process lives. Answers when it said so before, and now.
WITH before AS (
    SELECT seen_at FROM weir.replica WHERE tenant_id = 0 AND replica = $1 LIMIT 1
)
INSERT INTO weir.replica (tenant_id, replica, generation, handlers, seen_at)
VALUES (0, $1, 0, $2, weir.clock())
ON CONFLICT (tenant_id, replica) DO UPDATE
   SET handlers = EXCLUDED.handlers, seen_at = EXCLUDED.seen_at
RETURNING (SELECT seen_at FROM before), seen_at
