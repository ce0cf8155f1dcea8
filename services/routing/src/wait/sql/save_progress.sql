-- routing.save_progress: how far subscriptions have seen, and that the check that was asked for is done. A Work that
-- was held meanwhile keeps its subscriptions asleep.
WITH seen AS (
    UPDATE weir.wait_sub s
       SET seen_seq = u.seq, seen_at = u.at
      FROM unnest($4::int2[], $5::int8[], $6::timestamptz[]) AS u(item, seq, at)
     WHERE s.tenant_id = $1 AND s.work_id = $2 AND s.n = $3 AND s.item = u.item AND s.seen_seq < u.seq
)
UPDATE weir.wait
   SET checked = $7
 WHERE tenant_id = $1 AND work_id = $2 AND n = $3 AND state = 1 AND checked < $7
