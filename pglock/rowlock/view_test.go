package rowlock_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Where a process runs is not for every role, as with sessions.
func TestTheViewHidesHostsFromRolesThatMayNotSeeThem(t *testing.T) {
	t.Parallel()
	pool, db := installed(t)
	app, watcher := connect(t, db.Role(t, "pglock_app")), connect(t, db.Role(t, "pglock_watcher"))
	user := func(pool *pgxpool.Pool) string { return pool.Config().ConnConfig.User }
	_, err := pool.Exec(t.Context(), migrations.LockerGrants(user(app))+migrations.WatcherGrants(user(watcher))+
		migrations.WatcherGrants(user(app)))
	must.Succeed(t, err)
	l := open(t, app, pglock.WithTrustedOwner(user(pool)))
	defer unlock(t, lock(t, l))
	for watching, sees := range map[*pgxpool.Pool]bool{pool: true, app: true, watcher: false} {
		var key, role string
		var shown bool
		must.Succeed(t, watching.QueryRow(t.Context(),
			"SELECT key, role, host IS NOT NULL AND pid IS NOT NULL FROM pglock.row_locks").Scan(&key, &role, &shown))
		if key != "@6688477336110245193" || role != user(app) || shown != sees {
			t.Errorf("%s sees %s of %s, and where it runs: %v", user(watching), key, role, shown)
		}
	}
}
