-- Everything that migrations make, a line an object, in an order that does not depend on numbers.
WITH space AS (
    SELECT oid, nspname FROM pg_catalog.pg_namespace
    WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
), relation AS (
    SELECT c.* FROM pg_catalog.pg_class AS c JOIN space ON space.oid = c.relnamespace
)
SELECT line FROM (
    SELECT format('schema %s', nspname) FROM space
    UNION ALL
    SELECT format('relation %s kind=%s persistence=%s options=%s bound=%s key=%s comment=%s', oid::regclass, relkind,
                  relpersistence, reloptions, pg_get_expr(relpartbound, oid),
                  CASE relkind WHEN 'p' THEN pg_get_partkeydef(oid) END, obj_description(oid, 'pg_class'))
    FROM relation
    UNION ALL
    SELECT format('column %s.%s at=%s type=%s collation=%s not_null=%s identity=%s generated=%s storage=%s default=%s comment=%s',
                  a.attrelid::regclass, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod),
                  nullif(a.attcollation, 0)::regcollation, a.attnotnull, a.attidentity, a.attgenerated, a.attstorage,
                  pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum))
    FROM relation
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = relation.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE relation.relkind IN ('r', 'p', 'v', 'm')
    UNION ALL
    SELECT format('constraint %s.%s %s valid=%s', conrelid::regclass, conname, pg_get_constraintdef(k.oid), convalidated)
    FROM pg_catalog.pg_constraint AS k JOIN space ON space.oid = k.connamespace WHERE conrelid <> 0
    UNION ALL
    SELECT format('index %s valid=%s', pg_get_indexdef(indexrelid), indisvalid)
    FROM pg_catalog.pg_index JOIN relation ON relation.oid = indexrelid
    UNION ALL
    SELECT format('function %s %s', p.oid::regprocedure,
                  CASE p.prokind WHEN 'a' THEN 'aggregate' ELSE pg_get_functiondef(p.oid) END)
    FROM pg_catalog.pg_proc AS p JOIN space ON space.oid = p.pronamespace
    UNION ALL
    SELECT format('trigger %s', pg_get_triggerdef(t.oid))
    FROM pg_catalog.pg_trigger AS t JOIN relation ON relation.oid = t.tgrelid WHERE NOT t.tgisinternal
    UNION ALL
    SELECT format('sequence %s type=%s start=%s step=%s cycle=%s', seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqcycle)
    FROM pg_catalog.pg_sequence JOIN relation ON relation.oid = seqrelid
    UNION ALL
    SELECT format('type %s kind=%s', t.oid::regtype, t.typtype)
    FROM pg_catalog.pg_type AS t JOIN space ON space.oid = t.typnamespace WHERE t.typtype IN ('e', 'd', 'r')
) AS dump (line)
ORDER BY line COLLATE "C"
