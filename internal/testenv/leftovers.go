package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// grace is how long a backend may take to notice that its client is gone.
var grace = 10 * time.Second

// cleanUp drops the database. Its error says what the test has left behind.
func (db *DB) cleanUp() error {
	if db.host.server != nil && db.host.server.PID() == 0 {
		return nil
	}
	left, err := db.leftovers()
	if err != nil {
		err = fmt.Errorf("look for what the test has left in its database: %w", err)
	}
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("the test has left in its database:\n  %s", strings.Join(left, "\n  ")))
	}
	if dropErr := db.drop(); dropErr != nil {
		err = errors.Join(err, fmt.Errorf("drop the database of the test: %w", dropErr))
	}
	return err
}

// What a test may leave beside locks: sessions and prepared transactions.
const selectLeftovers = `
SELECT format('session %s of %s (application %s, %s): %s', pid, usename, application_name, state, query)
FROM pg_catalog.pg_stat_activity
WHERE datname = $1 AND backend_type = 'client backend'
UNION ALL SELECT format('prepared transaction %s', gid) FROM pg_catalog.pg_prepared_xacts WHERE database = $1`

// leftovers waits until nothing is left, or until the grace is over, and returns what is left.
func (db *DB) leftovers() (left []string, err error) {
	err = db.asAdmin(func(ctx context.Context, conn *pgx.Conn) (err error) {
		poll(grace, func() bool {
			left, err = db.lookForLeftovers(ctx, conn)
			return err != nil || len(left) == 0
		})
		return err
	})
	return left, err
}

func (db *DB) lookForLeftovers(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	locks, err := db.advisoryLocks(ctx, conn)
	if err != nil {
		return nil, err
	}
	left := make([]string, 0, len(locks))
	for _, lock := range locks {
		left = append(left, lock.String())
	}
	rows, err := conn.Query(ctx, selectLeftovers, db.name)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return append(left, lines...), err
}

// drop drops the database, and then its roles.
func (db *DB) drop() error {
	if err := db.asAdmin(execute("DROP DATABASE " + db.name + " WITH (FORCE)")); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, role := range db.roles {
		if err := db.asAdmin(execute("DROP ROLE " + identifier(role.name))); err != nil {
			return err
		}
	}
	return nil
}
