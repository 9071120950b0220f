package recorder

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/combine"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// names writes the names of keys into the registry, in the background. If a name cannot be written, it logs a warning,
// and tries again when the key is next locked.
type names struct {
	register func(context.Context, []string) error
	logger   *slog.Logger
	life     context.Context // ends with close
	end      context.CancelFunc

	queue *combine.Queue[string]

	mu     sync.Mutex
	known  map[string]struct{} // written, or about to be
	closed bool
}

func newNames(register func(context.Context, []string) error, logger *slog.Logger) *names {
	n := &names{register: register, logger: logger, known: map[string]struct{}{}}
	n.life, n.end = context.WithCancel(context.Background())
	n.queue = &combine.Queue[string]{Send: n.write, Most: maxBatch}
	return n
}

// note queues the name of the key, if it has one that has not been written yet.
func (n *names) note(key driver.Key) {
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

func (n *names) write(names []string) {
	ctx, cancel := context.WithTimeout(n.life, writeWithin)
	defer cancel()
	if err := n.register(ctx, names); err != nil {
		n.forget(names)
		n.logger.Warn("key names were not recorded for the monitor", "names", len(names), "error", err)
	}
}

func (n *names) forget(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		delete(n.known, name)
	}
}

// close writes what is queued, for as long as ctx lasts.
func (n *names) close(ctx context.Context) {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.queue.Wait(ctx)
	n.end()
	n.queue.Wait(context.Background()) // what is under way fails
}

const (
	maxBatch    = 1000    // names written with one statement
	maxQueue    = 10_000  // names that wait to be written; more are left for the next lock of their key
	maxKnown    = 100_000 // names remembered as written
	writeWithin = 30 * time.Second
)
