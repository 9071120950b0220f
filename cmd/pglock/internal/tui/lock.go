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

// lockID identifies a lock: a key in a database, or in a row of the connected one.
type lockID struct {
	database uint32
	key      pglock.KeyID
	inRow    bool
}

func lockIDOf(lock *monitor.Lock) lockID { return lockID{lock.DatabaseOID, lock.ID(), lock.InRow} }

// findLock returns the lock with an identity, or nil if no session or process has it.
func findLock(s *monitor.Snapshot, at lockID) *monitor.Lock {
	i := slices.IndexFunc(s.Locks, func(lock monitor.Lock) bool { return lockIDOf(&lock) == at })
	if i < 0 {
		return nil
	}
	return &s.Locks[i]
}

// label is the text shown for a lock.
func label(lock *monitor.Lock) string { return view.Printable(lock.Label()) }

// onlyHolder returns the one session or process that holds the lock, or nil if there is none or several.
func onlyHolder(lock *monitor.Lock) *monitor.SessionID {
	if lock == nil || len(lock.Holders) != 1 {
		return nil
	}
	id := lock.Holders[0].ID()
	return &id
}

// longestWait returns the longest wait for the lock, or a negative duration if there are no waiters.
func longestWait(s *monitor.Snapshot, lock *monitor.Lock) time.Duration {
	wait := time.Duration(-1)
	for i := range lock.Waiters {
		wait = max(wait, waited(s, &lock.Waiters[i]))
	}
	return wait
}

// waited returns how long a session has waited, or 0 if the server does not report it.
func waited(s *monitor.Snapshot, waiter *monitor.Waiter) time.Duration {
	if waiter.WaitingSince == nil {
		return 0
	}
	return max(0, s.TakenAt.Sub(*waiter.WaitingSince))
}

// sessionLabel names a session by its process ID and application, and others in the same way.
func sessionLabel(session *monitor.Session) string {
	return strings.TrimSpace(view.Who(*session) + " " + application(session))
}

// application returns a session's application_name without the mark of its pglock process.
func application(session *monitor.Session) string {
	name, _ := appname.Split(session.Application)
	return view.Field(*session, "application", name)
}

// heldBy returns how a session or process holds a lock, or nil if it does not.
func heldBy(lock *monitor.Lock, id monitor.SessionID) *monitor.Holder {
	i := slices.IndexFunc(lock.Holders, func(h monitor.Holder) bool { return h.ID() == id })
	if i < 0 {
		return nil
	}
	return &lock.Holders[i]
}

// rowHeld says since when and how a process holds a lock in a row.
func rowHeld(s *monitor.Snapshot, h *monitor.Holder) string {
	return fmt.Sprintf("%s, generation %d", view.Age(s.TakenAt.Sub(*h.SeenSince)), h.Generation)
}
