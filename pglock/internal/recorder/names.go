package recorder

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/combine"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// Names writes the names of keys into the registry, in the background. If a name cannot be written, Names logs a warning,
// and tries again when the key is next locked.
type Names struct {
	register func(context.Context, []string) error
	done     func() // ends the connection
	logger   *slog.Logger
	life     context.Context // ends with Close
	end      context.CancelFunc

	queue *combine.Queue[string]

	mu     sync.Mutex
	known  map[string]struct{} // written, or about to be
	closed bool
}

// NewNames returns a Names that has not dialled yet.
func NewNames(dialer *wire.Dialer, owners []string, logger *slog.Logger) *Names {
	l := newLink(dialer)
	n := NewNamesBy(func(ctx context.Context, names []string) error {
		return register(ctx, l, owners, names)
	}, logger)
	n.done = l.close
	return n
}

// NewNamesBy returns a Names that writes with register.
func NewNamesBy(register func(context.Context, []string) error, logger *slog.Logger) *Names {
	n := &Names{register: register, done: func() {}, logger: logger, known: map[string]struct{}{}}
	n.life, n.end = context.WithCancel(context.Background())
	n.queue = &combine.Queue[string]{Send: n.write, Most: maxBatch}
	return n
}

// Note queues the name of the key, if it has one that has not been written yet.
func (n *Names) Note(key driver.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.known[key.Name]; known || n.closed || !key.Named || n.queue.Len() >= maxQueue {
		return
	}
	if len(n.known) >= maxKnown {
		clear(n.known) // the names that are forgotten may be written again
	}
	n.known[key.Name] = struct{}{}
	n.queue.Add(key.Name)
}

func (n *Names) write(names []string) {
	ctx, cancel := context.WithTimeout(n.life, writeWithin)
	defer cancel()
	if err := n.register(ctx, names); err != nil {
		n.forget(names)
		n.logger.Warn("key names were not recorded for the monitor", "names", len(names), "error", err)
	}
}

func (n *Names) forget(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		delete(n.known, name)
	}
}

// register writes names if the schema is one whose code the role may execute.
func register(ctx context.Context, l *link, owners, names []string) error {
	return l.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(lockdb.BeginReadCommitted)
		check := trust.Queue(batch, owners)
		batch.Queue(lockdb.RegisterNames, names)
		batch.Queue(lockdb.Commit)
		if err := conn.SendBatch(ctx, batch).Close(); err != nil {
			return check.Explain(err)
		}
		return nil
	})
}

// Ping returns an error if names cannot be written.
func (n *Names) Ping(ctx context.Context) error { return n.register(ctx, []string{}) }

// Close writes what is queued, for as long as ctx lasts.
func (n *Names) Close(ctx context.Context) {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.queue.Wait(ctx)
	n.end()
	n.queue.Wait(context.Background()) // what is under way fails
	n.done()
}

const (
	maxBatch    = 1000    // names written with one statement
	maxQueue    = 10_000  // names that wait to be written; more are left for the next lock of their key
	maxKnown    = 100_000 // names remembered as written
	writeWithin = 30 * time.Second
)
