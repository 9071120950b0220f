package patterns_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/examples/patterns"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// site is a backend with a store.
type site struct {
	store  patterns.Store
	locker func() *pglock.Locker // one more, as in a separate process
	child  []string              // what a child process finds in its environment, see transfers_test.go
}

// onBoth runs a test on PostgreSQL and on Redis.
func onBoth(t *testing.T, run func(t *testing.T, s site)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		db := testenv.Database(t)
		config := db.Config(t)
		config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		check(t, err)
		t.Cleanup(pool.Close)
		_, err = pool.Exec(t.Context(), "create table numbers (name text primary key, value bigint not null)")
		check(t, err)
		run(t, site{table{pool}, func() *pglock.Locker {
			l, err := pglock.NewWithConfig(db.Config(t))
			return closing(t, l, err)
		}, []string{transferVariable + "=postgres", addressVariable + "=" + db.ConnString()}})
	})
	t.Run("Redis", func(t *testing.T) {
		opts, err := redis.ParseURL(testenv.RedisURL(t))
		check(t, err)
		client := redis.NewClient(opts)
		t.Cleanup(func() { check(t, client.Close()) })
		run(t, site{values{client, t.Name() + ":"}, func() *pglock.Locker {
			l, err := redisfallback.New(client)
			return closing(t, l, err)
		}, []string{transferVariable + "=" + t.Name() + ":", addressVariable + "=" + testenv.RedisURL(t)}})
	})
}

func closing(t *testing.T, l *pglock.Locker, err error) *pglock.Locker {
	t.Helper()
	check(t, err)
	t.Cleanup(func() { check(t, l.Close(context.Background())) })
	return l
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// table is a store in PostgreSQL.
type table struct{ pool *pgxpool.Pool }

func (s table) Get(ctx context.Context, name string) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "select coalesce((select value from numbers where name = $1), 0)", name).Scan(&n)
	return n, err
}

func (s table) Set(ctx context.Context, name string, n int64) error {
	_, err := s.pool.Exec(ctx, "insert into numbers values ($1, $2) on conflict (name) do update set value = $2", name, n)
	return err
}

// values is a store in Redis.
type values struct {
	client *redis.Client
	prefix string
}

func (s values) Get(ctx context.Context, name string) (int64, error) {
	n, err := s.client.Get(ctx, s.prefix+name).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}

func (s values) Set(ctx context.Context, name string, n int64) error {
	return s.client.Set(ctx, s.prefix+name, n, time.Minute).Err()
}

func TestPatternCounterLosesNoUpdate(t *testing.T) {
	onBoth(t, func(t *testing.T, s site) {
		const processes, each = 4, 100
		var wg sync.WaitGroup
		for range processes {
			l := s.locker()
			wg.Go(func() {
				for range each {
					check(t, patterns.Increment(t.Context(), l, s.store, "visits"))
				}
			})
		}
		wg.Wait()
		if n, err := s.store.Get(t.Context(), "visits"); err != nil || n != processes*each {
			t.Errorf("the counter is %d, %v; want %d", n, err, processes*each)
		}
	})
}

func TestPatternStatusTellsWhatIsAtWork(t *testing.T) {
	onBoth(t, func(t *testing.T, s site) {
		l, other := s.locker(), s.locker()
		err := patterns.Work(t.Context(), l, "import", func(ctx context.Context) error {
			status, err := patterns.Status(ctx, other, "import", "export")
			if !status["import"] || status["export"] {
				t.Errorf("the status is %v", status)
			}
			return err
		})
		check(t, err)
		if status, err := patterns.Status(t.Context(), other, "import"); err != nil || status["import"] {
			t.Errorf("after the work: %v, %v", status, err)
		}
	})
}
