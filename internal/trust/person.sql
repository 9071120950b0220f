-- Whom the current role can trust without being told. "person" is one row, and "way" says how a role becomes one of those
-- that the current role, or the one that has logged in, is a member of.
--
-- RESET ROLE and RESET SESSION AUTHORIZATION lead back to the role that has logged in, so where that one can do more, it
-- counts too. session_user is not that role after SET SESSION AUTHORIZATION, which is for superusers.
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
                   THEN 'is privileged (SUPERUSER, CREATEROLE, CREATEDB, REPLICATION, BYPASSRLS or a role pg_…)'
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
