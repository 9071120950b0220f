package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// followed is a key that stays in view, free or not. It is never changed, only replaced.
type followed struct {
	server int
	where  string // names the server, if there are several
	place  place
	label  string
	// holders are the holders in the latest snapshot, as text; empty if the key is free.
	holders string
	waiters int
	since   string // the time of the first snapshot with these holders
}

// follow starts to follow a lock of a snapshot.
func follow(s *monitor.Snapshot, lock *monitor.Lock) *followed {
	return &followed{place: placeOf(lock), label: label(lock), holders: holders(lock),
		waiters: len(lock.Waiters), since: clock(s.TakenAt)}
}

// see looks for the key in another snapshot, and logs a change of its holders.
func (f *followed) see(s *monitor.Snapshot, l log) (*followed, log) {
	if f == nil {
		return nil, l
	}
	now := &followed{server: f.server, where: f.where, place: f.place, label: f.label, since: f.since}
	if lock := find(s, f.place); lock != nil {
		now.label, now.holders, now.waiters = label(lock), holders(lock), len(lock.Waiters)
	}
	if now.holders != f.holders {
		now.since = clock(s.TakenAt)
		l = l.add(s.TakenAt, fmt.Sprintf("%s: %s, before %s", now.label, now.state(), f.state()))
	}
	return now, l
}

func (f *followed) line(t trends) string {
	trend := strings.TrimLeft(t.of(f.place).sparkline(trendWidth), " ")
	return fmt.Sprintf(" following %s%s: %s, %d waiting %s unchanged since %s", f.label, f.where, f.state(), f.waiters, trend, f.since)
}

func (f *followed) state() string {
	if f.holders == "" {
		return "free"
	}
	return "held by " + f.holders
}

func find(s *monitor.Snapshot, at place) *monitor.Lock {
	i := slices.IndexFunc(s.Locks, func(lock monitor.Lock) bool { return placeOf(&lock) == at })
	if i < 0 {
		return nil
	}
	return &s.Locks[i]
}

// holders names the holders of a lock, as many as fit.
func holders(lock *monitor.Lock) string {
	const most = 3
	var names []string
	for i := range lock.Holders {
		if i == most {
			names = append(names, fmt.Sprintf("+%d", len(lock.Holders)-most))
			break
		}
		names = append(names, named(&lock.Holders[i].Session))
	}
	return strings.Join(names, ", ")
}

// named names a session and its application.
func named(session *monitor.Session) string {
	return strings.TrimSpace(view.Who(*session) + " " + application(session))
}

// application omits the mark of a pglock process, for which rows have no room.
func application(session *monitor.Session) string {
	name := session.Application
	if session.Process != "" {
		name = strings.TrimSuffix(name, fmt.Sprintf(" (pglock %s)", session.Process))
	}
	return view.Field(*session, "application", name)
}
