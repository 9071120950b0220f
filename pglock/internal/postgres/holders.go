package postgres

import (
	"context"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Holders asks db who holds any of the keys in its database.
func Holders(ctx context.Context, db lockdb.DBTX, keys []driver.Key) ([]driver.Holder, error) {
	wanted := newKeySet(keys)
	rows, err := lockdb.New(db).Holders(ctx, lockdb.HoldersParams{Spaces: wanted.spaces(), Numbers: wanted.numbers()})
	if err != nil {
		return nil, err
	}
	holders := make([]driver.Holder, len(rows))
	for i, row := range rows {
		holders[i] = driver.Holder{
			Shared: row.Shared, PID: row.Pid, Prepared: row.Prepared,
			User: row.Username, Application: row.Application, Client: row.Client,
			SessionSince: row.SessionSince.Time,
		}
	}
	return holders, nil
}
