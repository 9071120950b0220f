package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/monitor/journal"
)

// fleet is the servers that a command watches. Each has its own connections, so one that does not answer does not delay
// the others. Its methods may be called concurrently.
type fleet struct {
	members []*member

	mu    sync.Mutex
	found []identity // identities of the members, from their last snapshots; zero for one that does not answer
}

// member is one server of a fleet.
type member struct {
	*observer
	db database
}

func newFleet(ctx context.Context, dbs []database, application string, options []monitor.Option) (*fleet, error) {
	f := &fleet{found: make([]identity, len(dbs))}
	for i, db := range dbs {
		pool, err := db.pool(ctx, application)
		if err != nil {
			f.close()
			return nil, err
		}
		o := newObserver(pool, db.options(options))
		o.snap = func(ctx context.Context) (*monitor.Snapshot, error) { return f.snapshot(ctx, i) }
		f.members = append(f.members, &member{o, db})
	}
	return f, nil
}

func (f *fleet) close() {
	for _, m := range f.members {
		m.pool.Close()
	}
}

// snapshot takes a snapshot of a member's server, unless an earlier member has the same server.
func (f *fleet) snapshot(ctx context.Context, i int) (*monitor.Snapshot, error) {
	m := f.members[i]
	s, err := monitor.Take(ctx, m.pool, m.options...)
	if len(f.members) == 1 {
		return s, err
	}
	var who identity
	if err == nil {
		who, err = identify(ctx, m.pool, f.identity(i))
	}
	f.mu.Lock()
	f.found[i] = who
	f.mu.Unlock()
	if err == nil {
		err = f.twin(i)
	}
	if err != nil {
		return nil, err
	}
	s.Server.Label = m.db.label
	return s, nil
}

func (f *fleet) identity(i int) identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found[i]
}

var errTwin = errors.New("the same server as")

// twin is the error of a member with the same server as an earlier one. If both are new, the later one may be shown
// until its next snapshot.
func (f *fleet) twin(i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, who := range f.found[:i] {
		if who.known() && who == f.found[i] {
			return fmt.Errorf("%w %s, where its locks are shown", errTwin, f.members[k].db.label)
		}
	}
	return nil
}

// identity identifies a running server, whatever address it is reached by. A standby has its primary's system
// identifier, but another start time.
type identity struct {
	system  string // identifier; empty where the role may not read it
	port    string
	started int64
}

func (w identity) known() bool { return w.started != 0 }

const (
	selectStart = `SELECT pg_catalog.pg_postmaster_start_time(), pg_catalog.current_setting('port')`
	// selectSystem is separate, since the right to read it can be revoked.
	selectSystem = `SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()`
)

// identify asks a server for its identity. If its start time has not changed, the identity is the one from
// before.
func identify(ctx context.Context, db monitor.DBTX, before identity) (who identity, err error) {
	var started time.Time
	if err := db.QueryRow(ctx, selectStart).Scan(&started, &who.port); err != nil {
		return identity{}, fmt.Errorf("ask which server it is: %w", err)
	}
	who.started = started.UnixMicro()
	if who.started == before.started && who.port == before.port {
		return before, nil
	}
	err = db.QueryRow(ctx, selectSystem).Scan(&who.system)
	if sqlstate.Of(err) == sqlstate.InsufficientPrivilege {
		return who, nil
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return identity{}, fmt.Errorf("ask which server it is: %w", err)
	}
	return who, nil
}

// answerTimeout is how long one of several servers may take for a snapshot.
const answerTimeout = 10 * time.Second

// look takes a snapshot, and notes the events since the last one.
func (o *observer) look(ctx context.Context) (*monitor.Snapshot, []journal.Event, error) {
	s, err := o.lookOnce(ctx)
	return o.note(ctx, s, err)
}

// lookOnce takes a snapshot, and gives up after answerTimeout.
func (o *observer) lookOnce(ctx context.Context) (*monitor.Snapshot, error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	s, err := o.snap(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (no answer within %v)", err, answerTimeout)
	}
	return s, err
}

// follow takes a snapshot at once and then one every interval, until ctx ends or each fails.
func (m *member) follow(ctx context.Context, every time.Duration, each func(*monitor.Snapshot, []journal.Event, error) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		s, events, err := m.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := each(s, events, err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// looked is the outcome of one look at a member.
type looked struct {
	*member
	snapshot *monitor.Snapshot
	err      error // names the server
}

// lookAll looks at all members at once.
func (f *fleet) lookAll(ctx context.Context) []looked {
	all := make([]looked, len(f.members))
	var looking sync.WaitGroup
	for i, m := range f.members {
		looking.Go(func() {
			s, err := m.lookOnce(ctx)
			all[i] = looked{m, s, err}
		})
	}
	looking.Wait()
	for i := range all {
		if all[i].err == nil {
			all[i].err = f.twin(i) // which two that were looked at in the same moment could not know
		}
		if all[i].err != nil {
			all[i].err = all[i].db.failed(all[i].err)
		}
	}
	return all
}
