-- What in schema pglock belongs to roles that the current role must not trust, since it would execute their code: the
-- schema itself, what is in it, and what the objects that are about to be used reach, through triggers, rules,
-- policies, defaults, CHECKs, indexes, inheritance, foreign keys that refer to them, and the functions, operators and
-- types in all of these. Without a row all of it is trusted.
--
-- $1 are further trusted roles, $2 the names of the objects that are about to be used; no names mean all. $3 says whether the
-- owner of the database may be trusted. The table expressions of person.sql come before.
--
-- It is safe on any search_path, as every operator, function and type has its schema. It asks the catalogs only. The
-- snapshot of a REPEATABLE READ transaction may be older than what the name pglock leads to now; the row "replaced" says
-- that these differ. The owner of a database can make any number of objects. So no more than 2000 are looked at, and the
-- row "too many" says that there are others: its place is after the rows of those that were looked at.
space AS (
    SELECT n.oid, n.nspowner FROM pg_catalog.pg_namespace AS n WHERE n.nspname OPERATOR(pg_catalog.=) 'pglock'
),
inside AS (
    SELECT d.classid, d.objid
    FROM pg_catalog.pg_depend AS d, space
    WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
      AND d.refobjid OPERATOR(pg_catalog.=) space.oid
    LIMIT 2001
),
reached (classid, objid) AS (
    SELECT i.classid, i.objid
    FROM inside AS i
    WHERE pg_catalog.cardinality($2::pg_catalog.text[]) OPERATOR(pg_catalog.=) 0
       OR (i.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND (
               SELECT c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ANY ($2) FROM pg_catalog.pg_class AS c
               WHERE c.oid OPERATOR(pg_catalog.=) i.objid))
       OR (i.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND (
               SELECT p.proname::pg_catalog.text OPERATOR(pg_catalog.=) ANY ($2) FROM pg_catalog.pg_proc AS p
               WHERE p.oid OPERATOR(pg_catalog.=) i.objid))
    UNION
    SELECT next.classid, next.objid
    FROM reached AS r
    CROSS JOIN LATERAL (
        -- What is attached to it: automatic (a), internal (i) and partition (P, S) dependencies.
        SELECT d.classid, d.objid FROM pg_catalog.pg_depend AS d
        WHERE d.refclassid OPERATOR(pg_catalog.=) r.classid AND d.refobjid OPERATOR(pg_catalog.=) r.objid
          AND d.deptype OPERATOR(pg_catalog.=) ANY ('{a,i,P,S}'::pg_catalog."char"[])
        UNION ALL
        SELECT r.classid, h.inhrelid FROM pg_catalog.pg_inherits AS h
        WHERE r.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
          AND h.inhparent OPERATOR(pg_catalog.=) r.objid
        UNION ALL
        -- Tables whose foreign keys refer to it: their triggers are executed when its rows are deleted or changed, and up to
        -- PostgreSQL 17 the deferred ones as the role that commits.
        SELECT r.classid, t.tgconstrrelid FROM pg_catalog.pg_trigger AS t
        WHERE r.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
          AND t.tgrelid OPERATOR(pg_catalog.=) r.objid AND t.tgconstrrelid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
        UNION ALL
        -- What it refers to.
        SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend AS d
        WHERE d.classid OPERATOR(pg_catalog.=) r.classid AND d.objid OPERATOR(pg_catalog.=) r.objid
          AND d.refclassid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_namespace'::pg_catalog.regclass
    ) AS next
),
found AS MATERIALIZED (
    SELECT r.classid, r.objid FROM reached AS r LIMIT 2001 -- ends the recursion
),
owned (classid, objid, owner) AS (
    SELECT 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid, space.oid, space.nspowner FROM space
    UNION ALL
    SELECT u.classid, u.objid,
           CASE
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass THEN (
                   SELECT t.relowner FROM pg_catalog.pg_class AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass THEN (
                   SELECT t.proowner FROM pg_catalog.pg_proc AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass THEN (
                   SELECT t.typowner FROM pg_catalog.pg_type AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass THEN (
                   SELECT t.oprowner FROM pg_catalog.pg_operator AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_opclass'::pg_catalog.regclass THEN (
                   SELECT t.opcowner FROM pg_catalog.pg_opclass AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_opfamily'::pg_catalog.regclass THEN (
                   SELECT t.opfowner FROM pg_catalog.pg_opfamily AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_conversion'::pg_catalog.regclass THEN (
                   SELECT t.conowner FROM pg_catalog.pg_conversion AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_collation'::pg_catalog.regclass THEN (
                   SELECT t.collowner FROM pg_catalog.pg_collation AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
               WHEN u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass THEN (
                   SELECT t.stxowner FROM pg_catalog.pg_statistic_ext AS t WHERE t.oid OPERATOR(pg_catalog.=) u.objid)
           END
    FROM (SELECT i.classid, i.objid FROM inside AS i UNION SELECT f.classid, f.objid FROM found AS f) AS u
    UNION ALL
    -- PostgreSQL does not record who made a trigger. Each role with the right TRIGGER may have, and its WHEN can execute any
    -- SQL by functions of PostgreSQL's (query_to_xml), which depends on nothing.
    SELECT r.classid, r.objid, a.grantee
    FROM found AS r
    JOIN pg_catalog.pg_trigger AS t ON t.oid OPERATOR(pg_catalog.=) r.objid AND NOT t.tgisinternal
    JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.tgrelid
    CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS a
    WHERE r.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_trigger'::pg_catalog.regclass
      AND a.privilege_type OPERATOR(pg_catalog.=) 'TRIGGER'
),
untrusted AS (
    SELECT x.oid, x.rolname
    FROM pg_catalog.pg_roles AS x, person AS p
    WHERE x.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT DISTINCT o.owner FROM owned AS o))
      AND NOT x.rolsuper
      AND NOT (x.rolname::pg_catalog.text OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[]))
      AND NOT (p.plain AND $3::pg_catalog.bool AND (x.oid OPERATOR(pg_catalog.=) p.database_owner
                                                    OR x.rolname OPERATOR(pg_catalog.=) 'pg_database_owner'))
      AND NOT (EXISTS (SELECT FROM way AS y WHERE y.target OPERATOR(pg_catalog.=) p.taken
                          AND pg_catalog.pg_has_role(x.oid, y.through, y.how))
               AND (p.alike OR EXISTS (SELECT FROM way AS y WHERE y.target OPERATOR(pg_catalog.=) p.login
                                          AND pg_catalog.pg_has_role(x.oid, y.through, y.how))))
)
SELECT 'unknown role' AS kind, '' AS object, given.name AS owner
FROM pg_catalog.unnest($1::pg_catalog.text[]) AS given (name)
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS r
                  WHERE r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) given.name)
UNION ALL
SELECT 'replaced', 'schema pglock', ''
WHERE COALESCE(pg_catalog.to_regnamespace('pglock')::pg_catalog.oid, 0) OPERATOR(pg_catalog.<>)
      COALESCE((SELECT space.oid FROM space), 0)
UNION ALL
(SELECT 'untrusted', pg_catalog.pg_describe_object(o.classid, o.objid, 0), COALESCE(u.rolname::pg_catalog.text, 'PUBLIC')
 FROM owned AS o LEFT JOIN untrusted AS u ON u.oid OPERATOR(pg_catalog.=) o.owner
 WHERE u.oid IS NOT NULL OR o.owner OPERATOR(pg_catalog.=) 0
 ORDER BY o.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_namespace'::pg_catalog.regclass, 2
 LIMIT 20)
UNION ALL
SELECT 'too many', '', ''
WHERE (SELECT pg_catalog.count(*) FROM inside) OPERATOR(pg_catalog.>) 2000
   OR (SELECT pg_catalog.count(*) FROM found) OPERATOR(pg_catalog.>) 2000
