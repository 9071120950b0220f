package patterns_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/examples/patterns"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// These variables make the test binary a process that transfers money: on PostgreSQL, or on Redis under names with a
// prefix.
const (
	transferVariable = "PGLOCK_EXAMPLE_TRANSFER" // "postgres", or the prefix
	addressVariable  = "PGLOCK_EXAMPLE_ADDRESS"
	timesVariable    = "PGLOCK_EXAMPLE_TIMES"
)

const accounts, each = 8, 1000

func account(i int) string { return fmt.Sprintf("account-%d", i) }

// TestPatternTransfersConserveMoney makes 2,500 transfers from four processes, each in a different order (10,000 with
// PGLOCK_TEST_TRIALS=4).
func TestPatternTransfersConserveMoney(t *testing.T) {
	const processes = 4
	transfers := testenv.Trials(t, 2500)
	onBoth(t, func(t *testing.T, s site) {
		for i := range accounts {
			check(t, s.store.Set(t.Context(), account(i), each))
		}
		var wg sync.WaitGroup
		for range processes {
			wg.Go(func() {
				child := exec.CommandContext(t.Context(), os.Args[0])
				child.Env = append(append(os.Environ(), s.child...), timesVariable+"="+strconv.Itoa(transfers/processes))
				if output, err := child.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, output)
				}
			})
		}
		wg.Wait()
		sum, changed := int64(0), false
		for i := range accounts {
			n, err := s.store.Get(t.Context(), account(i))
			check(t, err)
			if n < 0 {
				t.Errorf("%s has %d", account(i), n)
			}
			sum += n
			changed = changed || n != each
		}
		if sum != accounts*each || !changed {
			t.Errorf("there is %d in all accounts, want %d, and changed is %v", sum, accounts*each, changed)
		}
	})
}

// transferInChild is the process.
func transferInChild(kind string) (err error) {
	ctx, address := context.Background(), os.Getenv(addressVariable)
	times, err := strconv.Atoi(os.Getenv(timesVariable))
	if err != nil {
		return err
	}
	var l *pglock.Locker
	var store patterns.Store
	if kind == "postgres" {
		config, err := pgxpool.ParseConfig(address)
		if err != nil {
			return err
		}
		config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		defer pool.Close()
		store = table{pool}
		l, err = pglock.New(pool)
		if err != nil {
			return err
		}
	} else {
		opts, err := redis.ParseURL(address)
		if err != nil {
			return err
		}
		client := redis.NewClient(opts)
		defer func() { err = errors.Join(err, client.Close()) }()
		store = values{client, kind}
		l, err = redisfallback.New(client)
		if err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, l.Close(ctx)) }()
	const workers = 4
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range times / workers {
				pair := rand.Perm(accounts)
				err := patterns.Transfer(ctx, l, store, account(pair[0]), account(pair[1]), 1+rand.Int64N(200))
				if err != nil && !errors.Is(err, patterns.ErrFunds) {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
