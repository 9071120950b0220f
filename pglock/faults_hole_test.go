package pglock_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// silentApplication names the sessions of Lockers that fall silent.
const silentApplication = "silent"

// openShortLeased opens a Locker with a lease of a second, which also gives up dialling after that time.
func openShortLeased(t *testing.T, cfg *pgxpool.Config) *pglock.Locker {
	t.Helper()
	cfg.ConnConfig.ConnectTimeout = time.Second
	l, err := pglock.NewWithConfig(cfg, pglock.WithLease(time.Second), pglock.WithMaxHeld(10_000),
		pglock.WithApplicationName(silentApplication))
	must.Succeed(t, err)
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	testenv.WaitUntil(t, "it is connected within its second, however busy the machine is", func() bool { return l.Ping(t.Context()) == nil })
	return l
}
