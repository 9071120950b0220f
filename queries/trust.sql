-- What package trust asks before anything of schema pglock is executed.

-- A role that may create in a database, or was given rights on the schema, can put code there that runs with the rights of
-- whoever uses it. So the schema may be used if
--
--   it and everything in it belongs to a superuser, to the current role, or to a role that the user named (owner);
--   no other role may create in it, attach to it or write to it (right);
--   nothing in it leads to what is neither in it nor PostgreSQL's own (outside);
--   and nothing that pglock does not make is attached to it: triggers, policies, rules, statistics, child tables, foreign
--   keys (attached). PostgreSQL does not record who made a trigger, and its WHEN can execute any SQL by built-in functions.
--
-- Each row that has a kind says what breaks this, with a statement that ends it; at most 20. The row without one
-- has the schema, and whether the current role is the one that has logged in. After SET ROLE only superusers and named roles
-- are trusted, since RESET ROLE leads back to a role that may have more rights. If others can have made any number of
-- objects in the schema, it is not looked into: it is refused for that already.
--
-- It is safe on any search_path, as every operator, function and type has its schema. It asks the catalogs only.
-- name: LookAtSchema :many
WITH login AS (
    SELECT r.oid FROM pg_catalog.pg_roles AS r, pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a
    WHERE r.rolname OPERATOR(pg_catalog.=) current_user AND r.oid OPERATOR(pg_catalog.=) a.usesysid
),
trusted AS MATERIALIZED (
    SELECT r.oid FROM pg_catalog.pg_roles AS r
    WHERE r.rolsuper OR r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) ANY (@trusted::pg_catalog.text[])
    UNION SELECT l.oid FROM login AS l
),
space AS (SELECT n.oid, n.nspowner, n.nspacl FROM pg_catalog.pg_namespace AS n WHERE n.nspname OPERATOR(pg_catalog.=) 'pglock'),
closed AS (
    SELECT s.oid FROM space AS s JOIN trusted AS t ON t.oid OPERATOR(pg_catalog.=) s.nspowner
    WHERE NOT EXISTS (SELECT FROM pg_catalog.aclexplode(s.nspacl) AS a
                      WHERE a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
                        AND NOT EXISTS (SELECT FROM trusted AS t WHERE t.oid OPERATOR(pg_catalog.=) a.grantee))
),
inside (classid, objid, owner) AS MATERIALIZED (
    SELECT 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid, s.oid, s.nspowner FROM space AS s
    UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, t.oid, t.relowner
    FROM pg_catalog.pg_class AS t JOIN closed AS s ON t.relnamespace OPERATOR(pg_catalog.=) s.oid
    UNION ALL SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, t.oid, t.proowner
    FROM pg_catalog.pg_proc AS t JOIN closed AS s ON t.pronamespace OPERATOR(pg_catalog.=) s.oid
    UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, t.oid, t.typowner
    FROM pg_catalog.pg_type AS t JOIN closed AS s ON t.typnamespace OPERATOR(pg_catalog.=) s.oid
    -- pglock makes nothing of another kind.
    UNION ALL SELECT d.classid, d.objid, 0::pg_catalog.oid
    FROM pg_catalog.pg_depend AS d JOIN closed AS s ON d.refobjid OPERATOR(pg_catalog.=) s.oid
    WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
      AND d.deptype OPERATOR(pg_catalog.=) 'n'::pg_catalog."char" AND d.classid OPERATOR(pg_catalog.<>) ALL (
          ARRAY['pg_catalog.pg_class', 'pg_catalog.pg_proc', 'pg_catalog.pg_type']::pg_catalog.regclass[]::pg_catalog.oid[])
),
-- With what belongs to these and has no schema of its own.
part (classid, objid) AS MATERIALIZED (
    SELECT i.classid, i.objid FROM inside AS i
    UNION SELECT d.classid, d.objid
    FROM pg_catalog.pg_depend AS d
    JOIN inside AS i ON i.classid OPERATOR(pg_catalog.=) d.refclassid AND i.objid OPERATOR(pg_catalog.=) d.refobjid
    WHERE d.deptype OPERATOR(pg_catalog.=) ANY ('{a,i}'::pg_catalog."char"[])
      AND d.classid OPERATOR(pg_catalog.=) ANY (ARRAY['pg_catalog.pg_attrdef', 'pg_catalog.pg_rewrite', 'pg_catalog.pg_constraint',
          'pg_catalog.pg_type', 'pg_catalog.pg_class']::pg_catalog.regclass[]::pg_catalog.oid[])
),
attached (classid, objid, relation) AS (
    SELECT 'pg_catalog.pg_trigger'::pg_catalog.regclass::pg_catalog.oid, t.oid, t.tgrelid
    FROM pg_catalog.pg_trigger AS t WHERE NOT t.tgisinternal
    UNION ALL SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass, t.oid, t.polrelid FROM pg_catalog.pg_policy AS t
    UNION ALL SELECT 'pg_catalog.pg_rewrite'::pg_catalog.regclass, t.oid, t.ev_class
    FROM pg_catalog.pg_rewrite AS t WHERE t.rulename OPERATOR(pg_catalog.<>) '_RETURN'
    UNION ALL SELECT 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, t.oid, t.stxrelid FROM pg_catalog.pg_statistic_ext AS t
    UNION ALL SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, t.oid, t.confrelid
    FROM pg_catalog.pg_constraint AS t JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.conrelid
    WHERE NOT EXISTS (SELECT FROM space AS s WHERE s.oid OPERATOR(pg_catalog.=) c.relnamespace)
    UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, t.inhrelid, t.inhparent
    FROM pg_catalog.pg_inherits AS t JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.inhrelid
    WHERE NOT EXISTS (SELECT FROM space AS s WHERE s.oid OPERATOR(pg_catalog.=) c.relnamespace)
),
given (object, owner, acl, harmless) AS (
    SELECT 'SCHEMA pglock', s.nspowner, s.nspacl, '{USAGE}'::pg_catalog.text[] FROM space AS s
    UNION ALL
    SELECT pg_catalog.format('%s pglock.%I', CASE WHEN k.sequence THEN 'SEQUENCE' ELSE 'TABLE' END, c.relname), c.relowner, x.acl,
           CASE WHEN k.sequence THEN '{SELECT,USAGE}'::pg_catalog.text[] ELSE '{SELECT}' END
    FROM pg_catalog.pg_class AS c JOIN closed AS s ON c.relnamespace OPERATOR(pg_catalog.=) s.oid
    CROSS JOIN LATERAL (SELECT c.relkind OPERATOR(pg_catalog.=) 'S'::pg_catalog."char" AS sequence) AS k
    CROSS JOIN LATERAL (
        SELECT c.relacl AS acl
        UNION ALL SELECT t.attacl FROM pg_catalog.pg_attribute AS t
        WHERE t.attrelid OPERATOR(pg_catalog.=) c.oid AND t.attacl IS NOT NULL AND NOT t.attisdropped
    ) AS x
),
found (kind, classid, objid, subid, role, relation) AS (
    SELECT CASE WHEN i.owner OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'attached' ELSE 'owner' END, i.classid, i.objid, 0, i.owner, 0::pg_catalog.oid FROM inside AS i
    WHERE NOT EXISTS (SELECT FROM trusted AS t WHERE t.oid OPERATOR(pg_catalog.=) i.owner)
    UNION ALL
    SELECT 'outside', d.classid, d.objid, d.objsubid, 0, 0
    FROM pg_catalog.pg_depend AS d
    JOIN part AS p ON p.classid OPERATOR(pg_catalog.=) d.classid AND p.objid OPERATOR(pg_catalog.=) d.objid
    WHERE d.refclassid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_language'::pg_catalog.regclass
      AND NOT EXISTS (SELECT FROM part AS o WHERE o.classid OPERATOR(pg_catalog.=) d.refclassid
                          AND o.objid OPERATOR(pg_catalog.=) d.refobjid)
      -- PostgreSQL's own views.
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_class AS c
                      WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
                        AND c.oid OPERATOR(pg_catalog.=) d.refobjid AND c.relowner OPERATOR(pg_catalog.=) 10
                        AND c.relnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace)
    UNION ALL
    SELECT 'attached', x.classid, x.objid, 0, 0, x.relation
    FROM attached AS x JOIN inside AS i ON i.objid OPERATOR(pg_catalog.=) x.relation
        AND i.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
),
-- Few, since to describe an object costs more than to find it.
few AS MATERIALIZED (
    SELECT f.kind, f.classid, f.objid, f.subid, f.role, f.relation FROM found AS f
    ORDER BY f.kind OPERATOR(pg_catalog.<>) 'owner', f.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_namespace'::pg_catalog.regclass,
             f.kind, f.objid LIMIT 20
),
finding (kind, object, role, mend) AS (
    SELECT f.kind, pg_catalog.concat(pg_catalog.pg_describe_object(f.classid, f.objid, f.subid), CASE
        WHEN f.kind OPERATOR(pg_catalog.=) 'outside' THEN ' leads to something that is neither in the schema nor PostgreSQL''s own'
        WHEN f.kind OPERATOR(pg_catalog.=) 'attached' THEN ' is nothing that pglock makes' END), f.role, CASE
        WHEN f.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass THEN ''
        WHEN f.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass THEN (
            SELECT CASE WHEN c.conrelid OPERATOR(pg_catalog.=) 0::pg_catalog.oid
                THEN pg_catalog.format('ALTER DOMAIN %s DROP CONSTRAINT %I', c.contypid::pg_catalog.regtype, c.conname)
                ELSE pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', c.conrelid::pg_catalog.regclass, c.conname) END
            FROM pg_catalog.pg_constraint AS c WHERE c.oid OPERATOR(pg_catalog.=) f.objid)
        WHEN f.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass THEN (
            SELECT pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I DROP %s', a.attrelid::pg_catalog.regclass, a.attname,
                CASE WHEN a.attgenerated::pg_catalog.text OPERATOR(pg_catalog.=) '' THEN 'DEFAULT' ELSE 'EXPRESSION' END)
            FROM pg_catalog.pg_attrdef AS d JOIN pg_catalog.pg_attribute AS a ON a.attrelid OPERATOR(pg_catalog.=) d.adrelid
                AND a.attnum OPERATOR(pg_catalog.=) d.adnum
            WHERE d.oid OPERATOR(pg_catalog.=) f.objid)
        WHEN f.subid OPERATOR(pg_catalog.>) 0 THEN (
            SELECT pg_catalog.format('ALTER TABLE %s DROP COLUMN %I', a.attrelid::pg_catalog.regclass, a.attname)
            FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid OPERATOR(pg_catalog.=) f.objid AND a.attnum OPERATOR(pg_catalog.=) f.subid)
        WHEN f.kind OPERATOR(pg_catalog.=) 'outside' AND f.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass THEN (
            SELECT pg_catalog.concat('DROP VIEW ', r.ev_class::pg_catalog.regclass)
            FROM pg_catalog.pg_rewrite AS r WHERE r.oid OPERATOR(pg_catalog.=) f.objid)
        WHEN f.kind OPERATOR(pg_catalog.=) 'attached' AND f.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
            THEN pg_catalog.format('ALTER TABLE %s NO INHERIT %s', f.objid::pg_catalog.regclass, f.relation::pg_catalog.regclass)
        ELSE pg_catalog.concat('DROP ', CASE WHEN o.type OPERATOR(pg_catalog.=) 'statistics object' THEN 'STATISTICS'
                                            WHEN o.type OPERATOR(pg_catalog.=) 'composite type' THEN 'TYPE'
                                            ELSE pg_catalog.upper(o.type) END, ' ', o.identity)
    END
    FROM few AS f CROSS JOIN LATERAL pg_catalog.pg_identify_object(f.classid, f.objid, f.subid) AS o
    UNION ALL
    SELECT DISTINCT 'right', pg_catalog.format('role "%s" has the right %s on %s', CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid
        THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text END, a.privilege_type, g.object), 0::pg_catalog.oid, pg_catalog.format(
        'REVOKE %s ON %s FROM %s CASCADE', a.privilege_type, g.object,
        CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END)
    FROM given AS g CROSS JOIN LATERAL pg_catalog.aclexplode(g.acl) AS a
    WHERE a.privilege_type OPERATOR(pg_catalog.<>) ALL (g.harmless) AND a.grantee OPERATOR(pg_catalog.<>) g.owner
      AND NOT EXISTS (SELECT FROM trusted AS t WHERE t.oid OPERATOR(pg_catalog.=) a.grantee)
)
(SELECT f.kind::pg_catalog.text AS kind, f.object::pg_catalog.text AS object,
        (CASE WHEN f.role OPERATOR(pg_catalog.<>) 0::pg_catalog.oid THEN pg_catalog.pg_get_userbyid(f.role)::pg_catalog.text
              ELSE '' END)::pg_catalog.text AS owner,
        COALESCE(f.mend, '')::pg_catalog.text AS mend, 0::bigint AS schema, false AS as_login
 FROM finding AS f
 ORDER BY f.kind OPERATOR(pg_catalog.<>) 'owner', f.object OPERATOR(pg_catalog.<>) 'schema pglock',
          NOT pg_catalog.starts_with(f.object, 'table '), f.kind, f.object LIMIT 20)
UNION ALL
SELECT 'unknown role', '', n.name, '', 0, false FROM pg_catalog.unnest(@trusted::pg_catalog.text[]) AS n (name)
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) n.name)
UNION ALL
SELECT '', '', '', '', COALESCE((SELECT s.oid::bigint FROM space AS s), 0), EXISTS (SELECT FROM login);

-- Fails unless the name pglock leads to the schema whose OID is given. It keeps that schema from being dropped until the
-- transaction ends, by a lock on the sequence pglock.fence: reading a sequence executes no code of its owner. The role
-- needs a privilege on the sequence.
--
-- The branches of a CASE are evaluated in order, so the name is looked up after the lock is taken. The first branch is
-- never true. A standby takes no such locks. The texts of the last one are not numbers, and the error quotes them.
-- name: SameSchema :exec
SELECT CASE
    WHEN NOT pg_catalog.pg_is_in_recovery() AND pg_catalog.num_nulls(
        pg_catalog.pg_sequence_last_value(pg_catalog.to_regclass('pglock.fence'))) OPERATOR(pg_catalog.<) 0 THEN ''
    WHEN pg_catalog.to_regnamespace('pglock')::pg_catalog.oid OPERATOR(pg_catalog.=) @schema::pg_catalog.oid THEN ''
    ELSE pg_catalog.concat('pglock_', CASE WHEN pg_catalog.to_regnamespace('pglock') IS NULL THEN 'missing' ELSE 'replaced' END
        )::pg_catalog.int4::pg_catalog.text
END AS same;

-- The schema's owner, whom applications of other roles have to name unless it is a superuser.
-- name: SchemaOwner :one
SELECT r.rolname::pg_catalog.text AS owner, r.rolsuper::pg_catalog.bool AS superuser
FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
WHERE n.nspname OPERATOR(pg_catalog.=) 'pglock';
