package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// recorder writes the names of keys into the registry, in the background and on a connection of its own: a commit that
// hangs (synchronous replication) must never hold up a session that holds locks. A name that cannot be written costs a
// warning, and is tried again when its key is locked again.
type recorder struct {
	dialer *wire.Dialer
	owners []string // trusted ones of the schema
	logger *slog.Logger
	wake   chan struct{}
	ended  chan struct{}
	cancel context.CancelFunc

	mu      sync.Mutex
	known   map[string]struct{} // written, or about to be
	queue   []string
	started bool
	closed  bool
}

func newRecorder(dialer *wire.Dialer, owners []string, logger *slog.Logger) *recorder {
	return &recorder{
		dialer: dialer, owners: owners, logger: logger,
		known: map[string]struct{}{}, wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// note queues the names that have not been written yet.
func (r *recorder) note(keys []driver.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	before := len(r.queue)
	for _, key := range keys {
		if _, known := r.known[key.Name]; known || !recordable(key) || len(r.queue) >= maxQueue {
			continue
		}
		if len(r.known) >= maxKnown {
			clear(r.known) // forgetting only costs writing again what is there
		}
		r.known[key.Name] = struct{}{}
		r.queue = append(r.queue, key.Name)
	}
	if len(r.queue) == before {
		return
	}
	if !r.started {
		r.started = true
		ctx, cancel := context.WithCancel(context.Background())
		r.cancel = cancel
		go r.run(ctx)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// recordable reports whether PostgreSQL's text type can store the key's name.
func recordable(key driver.Key) bool {
	if !key.Named || !utf8.ValidString(key.Name) {
		return false
	}
	for i := range len(key.Name) {
		if key.Name[i] == 0 {
			return false
		}
	}
	return true
}

// run writes what is queued until ctx ends or the queue is closed and empty. Its connection is closed when nothing came
// for a while.
func (r *recorder) run(ctx context.Context) {
	defer close(r.ended)
	var conn *pgx.Conn
	hangUp := func() {
		if conn != nil {
			_ = conn.Close(ctx) // it closes the socket in any case
			conn = nil
		}
	}
	defer hangUp()
	for {
		names, closed := r.next()
		if len(names) > 0 {
			var err error
			if conn, err = r.write(ctx, conn, names); err != nil {
				hangUp()
				r.giveUp(names, err)
			}
			continue
		}
		if closed {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-time.After(idleFor):
			hangUp()
		}
	}
}

// next returns the queued names, and whether no more will come.
func (r *recorder) next() (names []string, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names = r.queue[:min(len(r.queue), maxBatch)]
	r.queue = r.queue[len(names):]
	return names, r.closed
}

func (r *recorder) write(ctx context.Context, conn *pgx.Conn, names []string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	if conn == nil || conn.IsClosed() {
		var err error
		if conn, err = r.dialer.Connect(ctx, func(*pgx.ConnConfig) {}); err != nil {
			return nil, err
		}
	}
	return conn, register(ctx, conn, r.owners, names)
}

// register writes names if the schema is one whose code the role may execute. Between the look at its owner and the use
// nothing can take its place: package trust says why.
func register(ctx context.Context, conn *pgx.Conn, owners, names []string) error {
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	trust.Queue(batch, owners, "schema_migrations", "register", "names")
	batch.Queue(lockdb.RegisterNames, names)
	batch.Queue("COMMIT")
	return trust.Explain(conn.SendBatch(ctx, batch).Close())
}

// ping finds out whether names can be written.
func (r *recorder) ping(ctx context.Context) error {
	conn, err := r.write(ctx, nil, []string{})
	if conn != nil {
		_ = conn.Close(ctx) // it closes the socket in any case
	}
	return err
}

func (r *recorder) giveUp(names []string, err error) {
	r.mu.Lock()
	for _, name := range names {
		delete(r.known, name)
	}
	r.mu.Unlock()
	r.logger.Warn("key names were not recorded for the monitor", "names", len(names), "error", wire.Classify(err))
}

// close writes what is queued, for as long as ctx lasts.
func (r *recorder) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	started := r.started
	r.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	select {
	case <-r.ended:
	case <-ctx.Done():
		r.cancel()
		<-r.ended
	}
	r.cancel()
	return nil
}

const (
	maxBatch    = 1000    // names written with one statement
	maxQueue    = 10_000  // names that wait to be written; more are left for the next lock of their key
	maxKnown    = 100_000 // names remembered as written
	writeWithin = 30 * time.Second
	idleFor     = 30 * time.Second // after which the connection is closed
)
