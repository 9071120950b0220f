-- What package trust asks before anything of schema pglock is executed.

-- What in schema pglock belongs to roles that the current role must not trust, since it would execute their code: the
-- schema itself, what is in it, and what the objects that are about to be used reach, through triggers, rules,
-- policies, defaults, CHECKs, indexes, inheritance, foreign keys that refer to them, and the functions, operators and
-- types in all of these. Without a row all of it is trusted.
--
-- trusted are further trusted roles, and objects the names of what is about to be used; no names mean all. database_owner
-- says whether the owner of the database may be trusted.
--
-- It is safe on any search_path, as every operator, function and type has its schema. It asks the catalogs only. The
-- snapshot of a REPEATABLE READ transaction may be older than what the name pglock leads to now; the row "replaced" says
-- that these differ. The owner of a database can make any number of objects. So no more than 2000 are looked at, and the
-- row "too many" says that there are others: its place is after the rows of those that were looked at.
--
-- "person" says whom the current role can trust without being told. It is one row, and "way" says how a role becomes one of those
-- that the current role, or the one that has logged in, is a member of.
--
-- RESET ROLE and RESET SESSION AUTHORIZATION lead back to the role that has logged in, so where that one can do more, it
-- counts too. session_user is not that role after SET SESSION AUTHORIZATION, which is for superusers.
-- name: Untrusted :many
WITH RECURSIVE session AS (
    SELECT u.oid AS taken, s.oid AS login, s.rolname AS login_name, d.oid AS database, d.datdba AS database_owner,
           -- Since PostgreSQL 16 a member may be one that cannot become the role, and not even use its rights. One that may
           -- grant the role can grant it to itself.
           CASE WHEN pg_catalog.current_setting('server_version_num')::integer OPERATOR(pg_catalog.>=) 160000
                THEN 'SET' ELSE 'MEMBER' END AS becomes,
           CASE WHEN pg_catalog.current_setting('server_version_num')::integer OPERATOR(pg_catalog.>=) 160000
                THEN 'SET, USAGE' ELSE 'MEMBER' END AS uses
    FROM pg_catalog.pg_roles AS u, pg_catalog.pg_roles AS s, pg_catalog.pg_database AS d
    WHERE u.rolname OPERATOR(pg_catalog.=) current_user
      AND s.oid OPERATOR(pg_catalog.=) COALESCE(
          (SELECT a.usesysid FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a),
          (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) session_user))
      AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
),
mine AS MATERIALIZED (
    SELECT r.oid, r.rolname,
           r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls
           OR (pg_catalog.starts_with(r.rolname::pg_catalog.text, 'pg_')
               AND r.rolname OPERATOR(pg_catalog.<>) 'pg_database_owner') AS privileged
    FROM pg_catalog.pg_roles AS r, session AS s
    WHERE pg_catalog.pg_has_role(s.taken, r.oid, 'MEMBER') OR pg_catalog.pg_has_role(s.login, r.oid, 'MEMBER')
),
way (target, through, how) AS MATERIALIZED (
    SELECT m.oid, m.oid, s.becomes FROM mine AS m, session AS s
    UNION ALL
    SELECT a.roleid, a.member, s.uses
    FROM session AS s, pg_catalog.pg_auth_members AS a
    JOIN mine AS m ON m.oid OPERATOR(pg_catalog.=) a.roleid
    WHERE a.admin_option
),
person AS (
    SELECT s.taken, s.login, s.login_name, s.database_owner, w.outside,
           -- The owner of the database can set search_path for the role's sessions, so what it owns there may be trusted by a role
           -- that has no rights elsewhere.
           w.outside OPERATOR(pg_catalog.=) '' AS plain,
           -- Whether the role that has logged in can do no more than the current one.
           s.taken OPERATOR(pg_catalog.=) s.login OR (NOT w.privileged AND NOT w.grants AND NOT EXISTS (
               SELECT FROM mine AS m
               WHERE m.oid OPERATOR(pg_catalog.<>) s.login AND pg_catalog.pg_has_role(s.login, m.oid, 'MEMBER')
                 AND NOT EXISTS (SELECT FROM way AS y WHERE y.target OPERATOR(pg_catalog.=) m.oid
                                    AND pg_catalog.pg_has_role(s.taken, y.through, y.how))
           )) AS alike
    FROM session AS s
    CROSS JOIN LATERAL (
        SELECT g.privileged, g.grants, CASE
                   WHEN g.privileged
                   THEN 'is privileged (SUPERUSER, CREATEROLE, CREATEDB, REPLICATION, BYPASSRLS or a role pg_*)'
                   WHEN g.grants THEN 'may grant a role (ADMIN OPTION)'
                   WHEN EXISTS (
                       SELECT FROM mine AS m
                       WHERE m.oid OPERATOR(pg_catalog.<>) s.login AND m.oid OPERATOR(pg_catalog.<>) s.taken
                         AND NOT EXISTS (SELECT FROM way AS y WHERE y.target OPERATOR(pg_catalog.=) m.oid
                                            AND pg_catalog.pg_has_role(s.database_owner, y.through, y.how)))
                   THEN 'is in a role that this owner is not in'
                   -- What it owns, or was granted, in databases of other owners, and tablespaces and the like.
                   WHEN EXISTS (
                       SELECT FROM pg_catalog.pg_shdepend AS e
                       LEFT JOIN pg_catalog.pg_database AS d ON d.oid OPERATOR(pg_catalog.=) CASE
                           WHEN e.dbid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid THEN e.dbid
                           WHEN e.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_database'::pg_catalog.regclass THEN e.objid END
                       WHERE e.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_authid'::pg_catalog.regclass
                         AND (e.refobjid OPERATOR(pg_catalog.=) s.taken OR e.refobjid OPERATOR(pg_catalog.=) s.login)
                         AND (d.datdba OPERATOR(pg_catalog.=) s.database_owner) IS NOT TRUE)
                   THEN 'owns something, or was granted a right, outside of this owner''s databases'
                   ELSE '' END AS outside
        FROM (SELECT EXISTS (SELECT FROM mine AS m WHERE m.privileged) AS privileged,
                     EXISTS (SELECT FROM pg_catalog.pg_auth_members AS a JOIN mine AS m ON m.oid OPERATOR(pg_catalog.=) a.member
                             WHERE a.admin_option) AS grants) AS g
    ) AS w
),
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
    WHERE pg_catalog.cardinality(@objects::pg_catalog.text[]) OPERATOR(pg_catalog.=) 0
       OR (i.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND (
               SELECT c.relname::pg_catalog.text OPERATOR(pg_catalog.=) ANY (@objects::pg_catalog.text[]) FROM pg_catalog.pg_class AS c
               WHERE c.oid OPERATOR(pg_catalog.=) i.objid))
       OR (i.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND (
               SELECT p.proname::pg_catalog.text OPERATOR(pg_catalog.=) ANY (@objects::pg_catalog.text[]) FROM pg_catalog.pg_proc AS p
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
      AND NOT (x.rolname::pg_catalog.text OPERATOR(pg_catalog.=) ANY (@trusted::pg_catalog.text[]))
      AND NOT (p.plain AND @database_owner::pg_catalog.bool AND (x.oid OPERATOR(pg_catalog.=) p.database_owner
                                                    OR x.rolname OPERATOR(pg_catalog.=) 'pg_database_owner'))
      AND NOT (EXISTS (SELECT FROM way AS y WHERE y.target OPERATOR(pg_catalog.=) p.taken
                          AND pg_catalog.pg_has_role(x.oid, y.through, y.how))
               AND (p.alike OR EXISTS (SELECT FROM way AS y WHERE y.target OPERATOR(pg_catalog.=) p.login
                                          AND pg_catalog.pg_has_role(x.oid, y.through, y.how))))
)
SELECT 'unknown role'::pg_catalog.text AS kind, ''::pg_catalog.text AS object, given.name::pg_catalog.text AS owner
FROM pg_catalog.unnest(@trusted::pg_catalog.text[]) AS given (name)
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
   OR (SELECT pg_catalog.count(*) FROM found) OPERATOR(pg_catalog.>) 2000;

-- Fails unless the name pglock refers to the schema whose OID is given. It keeps that schema from being dropped until the
-- transaction ends, by a lock on the sequence pglock.fence: reading a sequence executes no code of its owner. The role
-- needs a privilege on the sequence.
--
-- The branches of a CASE are evaluated in order, so the name is looked up after the lock is taken. The first branch is
-- never true. A standby takes no such locks. The texts of the last two are not numbers, and the error quotes them.
-- name: SameSchema :exec
SELECT CASE
    WHEN NOT (pg_catalog.pg_is_in_recovery()
        OR pg_catalog.pg_sequence_last_value(pg_catalog.to_regclass('pglock.fence')) IS NULL
        OR pg_catalog.pg_sequence_last_value(pg_catalog.to_regclass('pglock.fence')) IS NOT NULL) THEN ''
    WHEN pg_catalog.to_regnamespace('pglock')::pg_catalog.oid OPERATOR(pg_catalog.=) @schema::pg_catalog.oid THEN ''
    WHEN pg_catalog.to_regnamespace('pglock') IS NULL
        THEN pg_catalog.concat('pglock_untrusted["missing", "", ""]')::pg_catalog.int4::pg_catalog.text
    ELSE pg_catalog.concat('pglock_untrusted["replaced", "schema pglock", ""]')::pg_catalog.int4::pg_catalog.text
END AS same;

-- At most 100 of the rights that pglock.limit_rights of migration 12 takes away.
-- name: ExcessRights :many
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
SELECT o.name::text AS object, pg_catalog.concat(a.privilege_type, o.columns)::text AS privilege,
       (CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END)::text AS grantee,
       pg_catalog.pg_has_role(o.owner, 'USAGE')::bool AS revocable
FROM object AS o CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) AS a
WHERE a.grantee <> o.owner AND a.privilege_type <> ALL (o.harmless)
ORDER BY 4 DESC, 1, 2, 3 LIMIT 100;

-- At most 100 rights like these that roles will have on new objects of the schema's owner, if it is there, or else of the
-- current role.
-- name: DefaultRights :many
SELECT pg_catalog.quote_ident(m.rolname)::text AS maker, k.kind::text AS kind, a.privilege_type::text AS privilege,
       (CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END)::text AS grantee
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = 'pglock'
JOIN pg_catalog.pg_roles AS m ON CASE WHEN n.oid IS NULL THEN m.rolname = current_user ELSE m.oid = n.nspowner END
JOIN pg_catalog.pg_default_acl AS d ON d.defaclrole = m.oid AND (d.defaclnamespace = 0 OR d.defaclnamespace = n.oid)
JOIN (SELECT 'r' AS code, 'TABLES' AS kind, '{SELECT}'::text[] AS harmless
      UNION ALL SELECT 'S', 'SEQUENCES', '{SELECT,USAGE}'
      UNION ALL SELECT 'n', 'SCHEMAS', '{USAGE}') AS k ON k.code = d.defaclobjtype::text
CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) AS a
WHERE a.grantee <> m.oid AND a.privilege_type <> ALL (k.harmless) AND (n.oid IS NULL OR k.code <> 'n')
ORDER BY 1, 2, 4, 3 LIMIT 100;
