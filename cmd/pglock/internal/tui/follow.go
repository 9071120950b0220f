package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/monitor"
)

// followed is a key that stays in view even when it is free. It is immutable.
type followed struct {
	server int
	where  string // the server's name in a sentence, if there are several servers
	lock   lockID
	label  string
	// holders names the holders in the latest snapshot. It is empty if the key is free.
	holders string
	waiters int
	since   string // the time of the first snapshot with these holders
}

// follow returns a followed for a lock of a snapshot.
func follow(s *monitor.Snapshot, k keyInfo) *followed {
	return &followed{lock: k.keyID(), label: k.keyLabel(), holders: k.holderNames(), waiters: k.waiterCount(), since: clock(s.TakenAt)}
}

// update returns the key's state in a new snapshot, and logs a change of its holders.
func (f *followed) update(s *monitor.Snapshot, l log) (*followed, log) {
	if f == nil {
		return nil, l
	}
	now := &followed{server: f.server, where: f.where, lock: f.lock, label: f.label, since: f.since}
	if k := findKey(s, f.lock); !k.none() {
		now.label, now.holders, now.waiters = k.keyLabel(), k.holderNames(), k.waiterCount()
	}
	if now.holders != f.holders {
		now.since = clock(s.TakenAt)
		l = l.add(s.TakenAt, fmt.Sprintf("%s: %s, before %s", now.label, now.state(), f.state()))
	}
	return now, l
}

func (f *followed) line(t trends) string {
	trend := strings.TrimLeft(t.of(f.lock).sparkline(trendWidth), " ")
	return fmt.Sprintf(" following %s%s: %s, %d waiting %s unchanged since %s", f.label, f.where, f.state(), f.waiters, trend, f.since)
}

func (f *followed) state() string {
	if f.holders == "" {
		return "free"
	}
	return "held by " + f.holders
}

func findLock(s *monitor.Snapshot, at lockID) *monitor.Lock {
	i := slices.IndexFunc(s.Locks, func(lock monitor.Lock) bool { return lockIDOf(&lock) == at })
	if i < 0 {
		return nil
	}
	return &s.Locks[i]
}

// sessionLabel returns a session's process ID and application.
func sessionLabel(session *monitor.Session) string {
	return strings.TrimSpace(view.Who(*session) + " " + application(session))
}

// application returns a session's application_name without the mark of its pglock process.
func application(session *monitor.Session) string {
	name, _ := appname.Split(session.Application)
	return view.Field(*session, "application", name)
}
