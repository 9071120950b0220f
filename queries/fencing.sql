-- Draws a fencing token. The check and the use are of one OID, and nextval executes nothing that an owner could have
-- written; but the owner of the sequence, or of its schema, can set it back, so these must be trusted (package trust
-- says who is). The error names the owner that is not. There is no row if there is no such sequence.
--
-- The session carries other locks too, so it waits only briefly for a transaction that alters the sequence. The
-- branches of a CASE are evaluated in order.
--
-- A lock session runs no SQL of others, so session_user is the role that has logged in.
-- name: NextFence :one
SELECT (CASE WHEN stranger.name IS NOT NULL THEN pg_catalog.concat('pglock_untrusted',
            pg_catalog.json_build_array('untrusted', 'sequence pglock.fence', stranger.name))::bigint
        WHEN pg_catalog.set_config('lock_timeout', '50ms', true) IS NULL THEN NULL
        ELSE pg_catalog.nextval(s.oid::pg_catalog.regclass) END)::bigint AS fence
FROM pg_catalog.pg_namespace AS n
JOIN pg_catalog.pg_class AS s ON s.relnamespace OPERATOR(pg_catalog.=) n.oid
CROSS JOIN LATERAL (
    SELECT NOT EXISTS (
               SELECT FROM pg_catalog.pg_roles AS p
               WHERE (p.rolsuper OR p.rolcreaterole OR p.rolreplication OR p.rolbypassrls
                      OR (pg_catalog.starts_with(p.rolname::pg_catalog.text, 'pg_')
                          AND p.rolname OPERATOR(pg_catalog.<>) 'pg_database_owner'))
                 AND (pg_catalog.pg_has_role(current_user, p.oid, 'MEMBER')
                      OR pg_catalog.pg_has_role(session_user, p.oid, 'MEMBER'))) AS plain,
           CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 160000
                THEN 'SET, USAGE, MEMBER WITH ADMIN OPTION' ELSE 'MEMBER' END AS becomes
) AS person
LEFT JOIN LATERAL (
    SELECT pg_catalog.min(r.rolname::pg_catalog.text) AS name
    FROM pg_catalog.pg_roles AS r
    JOIN pg_catalog.pg_database AS d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
    WHERE (r.oid OPERATOR(pg_catalog.=) n.nspowner OR r.oid OPERATOR(pg_catalog.=) s.relowner)
      AND NOT r.rolsuper
      AND NOT (r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) ANY (@trusted::pg_catalog.text[]))
      AND NOT (person.plain AND r.oid OPERATOR(pg_catalog.=) d.datdba)
      AND NOT (pg_catalog.pg_has_role(r.oid, current_user, person.becomes)
               AND (person.plain OR pg_catalog.pg_has_role(r.oid, session_user, person.becomes)))
) AS stranger ON true
WHERE n.nspname OPERATOR(pg_catalog.=) 'pglock' AND s.relname OPERATOR(pg_catalog.=) 'fence'
  AND s.relkind OPERATOR(pg_catalog.=) 'S';
