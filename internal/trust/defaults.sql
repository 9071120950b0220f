SELECT pg_catalog.quote_ident(m.rolname), k.kind, a.privilege_type,
       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = 'pglock'
JOIN pg_catalog.pg_roles AS m ON CASE WHEN n.oid IS NULL THEN m.rolname = current_user ELSE m.oid = n.nspowner END
JOIN pg_catalog.pg_default_acl AS d ON d.defaclrole = m.oid AND (d.defaclnamespace = 0 OR d.defaclnamespace = n.oid)
JOIN (VALUES ('r', 'TABLES', '{SELECT}'::text[]), ('S', 'SEQUENCES', '{SELECT,USAGE}'), ('n', 'SCHEMAS', '{USAGE}'))
    AS k (code, kind, harmless) ON k.code = d.defaclobjtype::text
CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) AS a
WHERE a.grantee <> m.oid AND a.privilege_type <> ALL (k.harmless) AND (n.oid IS NULL OR k.code <> 'n')
ORDER BY 1, 2, 4, 3 LIMIT 100
