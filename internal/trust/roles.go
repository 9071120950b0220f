package trust

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Roles says whom the current role trusts without being told, superusers aside.
type Roles struct {
	DatabaseOwner string
	SuperuserOwns bool   // whether that owner is a superuser
	Login         string // the role that has logged in
	Outside       string // completes "the owner of the database is not trusted, because the role …"; "" if it is trusted
	RoleItself    bool   // not after SET ROLE by a role with more rights
	Members       string // that can become the role, separated by ", "
}

// FindRoles asks for [Roles].
func FindRoles(ctx context.Context, db Querier) (Roles, error) {
	rows, err := db.Query(ctx, roles, pgx.QueryExecModeExec)
	if err != nil {
		return Roles{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Roles])
}

// roles begins with the table expressions of [lockdb.Untrusted] that say whom the current role trusts.
var roles = untrusted[:strings.Index(untrusted, "space AS (")] + `heir AS (
	SELECT x.oid, x.rolname::pg_catalog.text AS name, x.rolsuper
	FROM pg_catalog.pg_roles AS x, person AS p
	WHERE EXISTS (SELECT FROM way AS y WHERE y.target OPERATOR(pg_catalog.=) p.taken
	              AND pg_catalog.pg_has_role(x.oid, y.through, y.how))
	  AND (p.alike OR EXISTS (SELECT FROM way AS y WHERE y.target OPERATOR(pg_catalog.=) p.login
	                          AND pg_catalog.pg_has_role(x.oid, y.through, y.how)))
)
SELECT pg_catalog.pg_get_userbyid(p.database_owner)::pg_catalog.text,
	EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.oid OPERATOR(pg_catalog.=) p.database_owner AND r.rolsuper),
	p.login_name::pg_catalog.text,
	p.outside,
	EXISTS (SELECT FROM heir AS h WHERE h.oid OPERATOR(pg_catalog.=) p.taken),
	COALESCE((SELECT pg_catalog.string_agg(h.name, ', ' ORDER BY h.name) FROM heir AS h
		WHERE NOT h.rolsuper AND h.oid OPERATOR(pg_catalog.<>) p.taken), '')
FROM person AS p`
