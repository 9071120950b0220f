package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// Texts that strangers choose stay short in errors, and contain nothing that a terminal would obey.
func TestErrorsOfLongTextsAreShort(t *testing.T) {
	db := testenv.Database(t)
	tx, pool := txBegin(t, db.Connect(t)), db.Pool(t)
	locker, err := locktest.NewMemory()
	txCheck(t, err)
	t.Cleanup(func() { txCheck(t, locker.Close(context.Background())) })
	limiter, err := ratelimit.New(pool, pglock.NewKey("limits"))
	txCheck(t, err)
	for name, stranger := range map[string]string{
		"a megabyte": strings.Repeat("é", 1<<19), "controls": strings.Repeat("\x1b[2J\r", 1<<17), "no UTF-8": strings.Repeat("\xff", 1<<20),
	} {
		key, ctx := pglock.NewKey(stranger), t.Context()
		_, scope := once.New(key)
		valid, err := once.New(pglock.NewKey("scope"))
		txCheck(t, err)
		_, allow := limiter.Allow(ctx, stranger, ratelimit.Limit{Count: 1, Per: time.Second})
		_, sem := semaphore.New(locker, key, -1)
		_, job := schedule.New(locker, key)
		_, parse := pglock.ParseKey("@" + stranger[:2*pglock.MaxName/3])
		_, lock := locker.Lock(ctx, key)
		for call, err := range map[string]error{
			"once.Tx": valid.Tx(ctx, tx, stranger), "once.New": scope, "ratelimit": allow, "semaphore": sem,
			"Lock": lock, "ParseKey": parse, "LockTx": pglock.LockTx(ctx, tx, key),
			"schedule": job,
			"WaitError": &pglock.WaitError{Keys: []pglock.Key{key}, Waited: 1, Err: errors.New(stranger), Holders: []pglock.Holder{
				{PID: 1, User: stranger, Application: stranger, Client: stranger},
			}},
			"WaitError of a token":    &pglock.WaitError{Keys: []pglock.Key{key}, Waited: 1, Holders: []pglock.Holder{{Token: stranger}}},
			"WaitError of a prepared": &pglock.WaitError{Keys: []pglock.Key{key}, Waited: 1, Holders: []pglock.Holder{{Prepared: stranger}}},
			"LostError":               &pglock.LostError{Keys: []pglock.Key{key}, Err: errors.New(stranger)},
		} {
			if err == nil {
				t.Errorf("%s, %s: no error", call, name)
				continue
			}
			text := err.Error()
			if len(text) > 12_000 { // a message of 2,000 bytes, each escaped, and some values
				t.Errorf("%s, %s: %d bytes", call, name, len(text))
			}
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }) {
				t.Errorf("%s, %s: %.300q", call, name, text)
			}
		}
	}
}
