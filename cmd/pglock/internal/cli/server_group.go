package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/monitor"
)

// serverGroup has the servers that a command watches. Each has its own connections, so a server that does not answer does
// not delay the others. The methods may be called concurrently.
type serverGroup struct {
	members []*member

	mu    sync.Mutex
	found []identity // identities of the members at their last snapshots; zero for a member that does not answer
}

// member is one server of a group.
type member struct {
	*observer
	db   database
	name string // of its file and its page
}

func newServerGroup(ctx context.Context, dbs []database, application string, options []monitor.Option) (*serverGroup, error) {
	f := &serverGroup{found: make([]identity, len(dbs))}
	var names []string
	for i, db := range dbs {
		pool, err := db.pool(ctx, application)
		if err != nil {
			f.close()
			return nil, err
		}
		o := newObserver(pool, db.flags, db.options(options))
		o.snap = func(ctx context.Context, more ...monitor.Option) (*monitor.Snapshot, error) {
			return f.snapshot(ctx, i, more)
		}
		names = append(names, memberName(db.label, names))
		f.members = append(f.members, &member{o, db, names[i]})
	}
	return f, nil
}

func (f *serverGroup) close() {
	for _, m := range f.members {
		m.pool.Close()
	}
}

// snapshot takes a snapshot of a member's server, unless an earlier member has the same server.
func (f *serverGroup) snapshot(ctx context.Context, i int, more []monitor.Option) (*monitor.Snapshot, error) {
	m := f.members[i]
	s, err := monitor.Take(ctx, m.pool, slices.Concat(m.options, more)...)
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
		err = f.duplicateError(i)
	}
	if err != nil {
		return nil, err
	}
	s.Server.Label = m.db.label
	return s, nil
}

func (f *serverGroup) identity(i int) identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found[i]
}

var errDuplicate = errors.New("the same server as")

// duplicateError returns the error of a member that is the same server as an earlier one. If both are new, the later one
// may be shown until its next snapshot.
func (f *serverGroup) duplicateError(i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, who := range f.found[:i] {
		if who.known() && who == f.found[i] {
			return fmt.Errorf("%w %s, where its locks are shown", errDuplicate, f.members[k].db.label)
		}
	}
	return nil
}

// identity identifies a running server, whatever its address. A standby has its primary's system identifier, but
// another start time.
type identity struct {
	system  string // identifier; empty if the role may not read it
	port    string
	started int64
}

func (w identity) known() bool { return w.started != 0 }

// identify asks a server for its identity. If its start time has not changed, the identity is the one from
// before.
func identify(ctx context.Context, db monitor.DBTX, before identity) (who identity, err error) {
	queries := monitordb.New(db)
	start, err := queries.ServerStart(ctx)
	if err != nil {
		return identity{}, fmt.Errorf("ask which server it is: %w", err)
	}
	who.started, who.port = start.Started.Time.UnixMicro(), start.Port
	if who.started == before.started && who.port == before.port {
		return before, nil
	}
	who.system, err = queries.SystemIdentifier(ctx)
	if sqlstate.Of(err) == sqlstate.InsufficientPrivilege {
		return who, nil
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return identity{}, fmt.Errorf("ask which server it is: %w", err)
	}
	return who, nil
}

// answerTimeout bounds a snapshot of one of several servers.
const answerTimeout = 10 * time.Second

// takeAndNote takes a snapshot, and notes the events since the last one.
func (o *observer) takeAndNote(ctx context.Context) (*monitor.Snapshot, []journal.Event, error) {
	s, err := o.takeWithTimeout(ctx)
	return o.note(ctx, s, err)
}

// takeWithTimeout takes a snapshot, and gives up after answerTimeout.
func (o *observer) takeWithTimeout(ctx context.Context) (*monitor.Snapshot, error) {
	if err := o.connect(ctx); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	s, err := o.snap(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (no answer within %v)", err, answerTimeout)
	}
	return s, err
}

// follow takes a snapshot at once and then one every interval, until ctx ends or each returns an error.
func (m *member) follow(ctx context.Context, every time.Duration, each func(*monitor.Snapshot, []journal.Event, error) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		s, events, err := m.takeAndNote(ctx)
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

// snapshotResult is the snapshot of a member, or the error.
type snapshotResult struct {
	*member
	snapshot *monitor.Snapshot
	err      error // names the server
}

// snapshotAll takes snapshots of all members concurrently.
func (f *serverGroup) snapshotAll(ctx context.Context) []snapshotResult {
	all := make([]snapshotResult, len(f.members))
	var looking sync.WaitGroup
	for i, m := range f.members {
		looking.Go(func() {
			s, err := m.takeWithTimeout(ctx)
			if err == nil {
				m.clients.name(ctx, s)
			}
			all[i] = snapshotResult{m, s, err}
		})
	}
	looking.Wait()
	for i := range all {
		if all[i].err == nil {
			all[i].err = f.duplicateError(i) // concurrent snapshots of two members cannot detect that they are the same server
		}
		if all[i].err != nil {
			all[i].err = all[i].db.failed(all[i].err)
		}
	}
	return all
}
