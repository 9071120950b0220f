WITH object AS (
    SELECT 'SCHEMA pglock' AS name, '' AS columns, n.nspowner AS owner, n.nspacl AS acl, '{USAGE}'::text[] AS harmless
    FROM pg_catalog.pg_namespace AS n WHERE n.nspname = 'pglock'
    UNION ALL
    SELECT pg_catalog.format('%s pglock.%I', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.relname),
           a.columns, c.relowner, a.acl, CASE c.relkind WHEN 'S' THEN '{SELECT,USAGE}'::text[] ELSE '{SELECT}'::text[] END
    FROM pg_catalog.pg_namespace AS n
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid
    CROSS JOIN LATERAL (
        SELECT '' AS columns, c.relacl AS acl
        UNION ALL
        SELECT pg_catalog.format(' (%I)', t.attname), t.attacl
        FROM pg_catalog.pg_attribute AS t WHERE t.attrelid = c.oid AND t.attacl IS NOT NULL AND NOT t.attisdropped
    ) AS a
    WHERE n.nspname = 'pglock'
)
SELECT o.name, pg_catalog.concat(a.privilege_type, o.columns),
       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END,
       pg_catalog.pg_has_role(o.owner, 'USAGE')
FROM object AS o CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) AS a
WHERE a.grantee <> o.owner AND a.privilege_type <> ALL (o.harmless)
ORDER BY 4 DESC, 1, 2, 3 LIMIT 100
