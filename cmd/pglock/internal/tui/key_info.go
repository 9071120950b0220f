package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// keyInfo is an advisory lock or a lock in a row. At most one of the two is there.
type keyInfo struct {
	lock  *monitor.Lock
	inRow *monitor.RowLock
}

func (k keyInfo) none() bool { return k.lock == nil && k.inRow == nil }

// keyID returns the identity of the lock.
func (k keyInfo) keyID() lockID {
	if k.inRow != nil {
		return lockID{key: k.inRow.ID(), inRow: true}
	}
	return lockIDOf(k.lock)
}

// keyLabel returns the text shown for the lock.
func (k keyInfo) keyLabel() string {
	if k.inRow != nil {
		return view.Printable(k.inRow.Label()) + " (row)"
	}
	return label(k.lock)
}

func (k keyInfo) holderCount() int {
	if k.inRow != nil {
		return len(k.inRow.Holders)
	}
	return len(k.lock.Holders)
}

func (k keyInfo) waiterCount() int {
	if k.inRow != nil {
		return len(k.inRow.Waiters)
	}
	return len(k.lock.Waiters)
}

// holder names one of the holders.
func (k keyInfo) holder(i int) string {
	if k.inRow != nil {
		return processLabel(&k.inRow.Holders[i].RowProcess)
	}
	return sessionLabel(&k.lock.Holders[i].Session)
}

// holderNames names the first holders.
func (k keyInfo) holderNames() string {
	const most = 3
	var names []string
	for i := range min(most, k.holderCount()) {
		names = append(names, k.holder(i))
	}
	if more := k.holderCount() - most; more > 0 {
		names = append(names, fmt.Sprintf("+%d", more))
	}
	return strings.Join(names, ", ")
}

// holderMode is how the first holder holds the lock.
func (k keyInfo) holderMode() monitor.Mode {
	if k.inRow != nil {
		return k.inRow.Holders[0].Mode
	}
	return k.lock.Holders[0].Mode
}

// onlyHolder returns the one session or process that holds the lock, or nil if there is none or several.
func (k keyInfo) onlyHolder() *monitor.SessionID {
	if k.none() || k.holderCount() != 1 {
		return nil
	}
	if k.inRow != nil {
		return &monitor.SessionID{Holder: k.inRow.Holders[0].Holder}
	}
	id := k.lock.Holders[0].ID()
	return &id
}

// longestWait returns the longest wait for the lock, or a negative duration if there are no waiters.
func (k keyInfo) longestWait(s *monitor.Snapshot) time.Duration {
	wait := time.Duration(-1)
	if k.inRow == nil {
		for i := range k.lock.Waiters {
			wait = max(wait, waited(s, &k.lock.Waiters[i]))
		}
		return wait
	}
	for i := range k.inRow.Waiters {
		wait = max(wait, s.TakenAt.Sub(k.inRow.Waiters[i].WaitingSince), 0)
	}
	return wait
}

// findKey returns the lock with an identity, which is none if no session or process has it.
func findKey(s *monitor.Snapshot, at lockID) keyInfo {
	if !at.inRow {
		i := slices.IndexFunc(s.Locks, func(lock monitor.Lock) bool { return lockIDOf(&lock) == at })
		if i < 0 {
			return keyInfo{}
		}
		return keyInfo{lock: &s.Locks[i]}
	}
	i := slices.IndexFunc(s.RowLocks, func(lock monitor.RowLock) bool { return lock.ID() == at.key })
	if i < 0 {
		return keyInfo{}
	}
	return keyInfo{inRow: &s.RowLocks[i]}
}

// processLabel names a process that uses locks in rows in a few words, as sessionLabel does a session.
func processLabel(p *monitor.RowProcess) string {
	name, _ := appname.Split(p.Application)
	return strings.TrimSpace(processPlace(p) + " " + view.Printable(name))
}

// processPlace returns the process ID and host of a process or, if they are unknown, the ID that its locks have.
func processPlace(p *monitor.RowProcess) string {
	if p.Host == "" {
		return view.Printable(p.Holder)
	}
	return fmt.Sprintf("%d@%s", p.PID, view.Printable(p.Host))
}

// sessionOf returns what a process has in common with a session, for the cells. Its own ID is in sessionInfo.
func sessionOf(s *monitor.Snapshot, p *monitor.RowProcess) *monitor.Session {
	hidden := slices.Clone(p.Hidden)
	if slices.Contains(hidden, "host") {
		hidden = append(hidden, "client")
	}
	return &monitor.Session{User: p.User, Application: p.Application, Database: s.Database, Client: p.Host, Since: p.Since,
		Hidden: hidden}
}

// heldRow returns how a process holds a lock in a row, or nil if it does not.
func heldRow(lock *monitor.RowLock, holder string) *monitor.RowHolder {
	for i := range lock.Holders {
		if lock.Holders[i].Holder == holder {
			return &lock.Holders[i]
		}
	}
	return nil
}

// keyWord returns the key in a form that is safe on a command line.
func (k keyInfo) keyWord() string {
	if k.lock != nil {
		return view.KeyWord(*k.lock)
	}
	if view.Inert(k.inRow.Key) {
		return k.inRow.Key
	}
	return fmt.Sprintf("@%d", k.inRow.Number)
}

// lockID identifies a lock: a key in a database, or in a row of the connected one.
type lockID struct {
	database uint32
	key      pglock.KeyID
	inRow    bool
}

func lockIDOf(lock *monitor.Lock) lockID { return lockID{database: lock.DatabaseOID, key: lock.ID()} }

// sessionLabel returns a session's process ID and application.
func sessionLabel(session *monitor.Session) string {
	return strings.TrimSpace(view.Who(*session) + " " + application(session))
}

// application returns a session's application_name without the mark of its pglock process.
func application(session *monitor.Session) string {
	name, _ := appname.Split(session.Application)
	return view.Field(*session, "application", name)
}

// waited returns how long a session has waited, or 0 if the server does not report it.
func waited(s *monitor.Snapshot, waiter *monitor.Waiter) time.Duration {
	if waiter.WaitingSince == nil {
		return 0
	}
	return max(0, s.TakenAt.Sub(*waiter.WaitingSince))
}
