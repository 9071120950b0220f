// Package recorder keeps for a backend what outlives locks: it records the names of keys and the runs of jobs, and draws
// fencing tokens.
package recorder

import (
	"context"
	"log/slog"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
)

// Recorder records runs, and names if that is wanted. Names are written one message at a time, so those of two
// connections that wait for a standby leave the other one to runs.
type Recorder struct {
	link   *link.Link
	owners []string // roles that may own the schema
	names  *names   // nil unless they are recorded
}

const connections = 2

// New returns a Recorder that has not dialled yet.
func New(c link.Config, recordNames bool, logger *slog.Logger) (*Recorder, error) {
	c.Connections = connections
	l, err := link.New(c)
	r := &Recorder{link: l, owners: c.Owners}
	if recordNames {
		r.names = newNames(r.register, logger)
	}
	return r, err
}

// Record implements [hooks.Recorder].
func (r *Recorder) Record(key driver.Key) {
	if r.names != nil {
		r.names.note(key)
	}
}

// register writes names into the registry.
func (r *Recorder) register(ctx context.Context, names []string) error {
	_, err := link.Ask(ctx, r.link, func(ctx context.Context, q *lockdb.Queries) (int64, error) { return q.RegisterNames(ctx, names) })
	return err
}

// Ping returns an error if names are wanted and cannot be written.
func (r *Recorder) Ping(ctx context.Context) error {
	if r.names == nil {
		return nil
	}
	return r.register(ctx, []string{})
}

// Close writes the names that are queued, and ends the connections, for as long as ctx lasts.
func (r *Recorder) Close(ctx context.Context) {
	if r.names != nil {
		r.names.close(ctx)
	}
	r.link.Close(ctx)
}
