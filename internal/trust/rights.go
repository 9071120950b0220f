package trust

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
)

// Right is a right on something in schema pglock with which a role could run code as the schema's owner, or change
// what is recorded: an object as GRANT names it, such as "TABLE pglock.names", a privilege such as "TRIGGER" or "INSERT
// (key)", the grantee, and whether the current role has the rights of the object's owner.
type Right = lockdb.ExcessRightsRow

// ExcessRights lists at most 100 of the rights that pglock.limit_rights of migration 12 takes away. The search_path is
// pinned.
func ExcessRights(ctx context.Context, db Querier) ([]Right, error) {
	return collect[Right](ctx, db, lockdb.ExcessRights)
}

// DefaultRight is a right that ALTER DEFAULT PRIVILEGES gives on everything of a kind that a role will make in the schema.
type DefaultRight = lockdb.DefaultRightsRow

// DefaultRights lists at most 100 rights like those of [ExcessRights] that roles will have on new objects of the schema's
// owner, if it is there, or else of the current role. The search_path is pinned.
func DefaultRights(ctx context.Context, db Querier) ([]DefaultRight, error) {
	return collect[DefaultRight](ctx, db, lockdb.DefaultRights)
}

func collect[T any](ctx context.Context, db Querier, sql string) ([]T, error) {
	rows, err := db.Query(ctx, sql, pgx.QueryExecModeExec)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
