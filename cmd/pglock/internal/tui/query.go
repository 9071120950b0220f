package tui

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// page is one of the pages of the view.
type page int

const (
	pageKeys page = iota
	pageTree
	pages
)

// tableQuery is what the user wants to see of a snapshot.
type tableQuery struct {
	page page
	// only limits the locks for the whole session.
	only view.Filter
	// flat unfolds all rows. Otherwise toggled has the folds that are unfolded, and the sessions below which nothing
	// is shown. The map is immutable.
	flat    bool
	toggled map[rowID]bool
	// filter matches a key or one of its sessions; nil matches everything.
	filter *regexp.Regexp
}

// compile compiles the text of a filter. It is case-insensitive unless the text contains a capital; ^ and $ match the
// ends of a field.
func compile(text string) (*regexp.Regexp, error) {
	flags := "(?m)"
	if text == strings.ToLower(text) {
		flags = "(?mi)"
	}
	compiled, err := regexp.Compile(flags + text)
	if malformed, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, errors.New(malformed.Code.String()) // without the added flags
	}
	return compiled, err
}

// matcher finds the locks that a query is about. It remembers which sessions and databases match, since each can
// have many locks.
type matcher struct {
	tableQuery
	snapshot  *monitor.Snapshot
	sessions  map[monitor.SessionID]bool
	databases map[string]bool
}

func newMatcher(q tableQuery, s *monitor.Snapshot) matcher {
	return matcher{q, s, map[monitor.SessionID]bool{}, map[string]bool{}}
}

// allowed reports whether a lock may be shown at all.
func (c matcher) allowed(lock *monitor.Lock) bool { return c.only.Shows(c.snapshot, lock) }

// shows reports whether an allowed lock is shown.
func (c matcher) shows(lock *monitor.Lock) bool {
	if c.filter == nil || c.matchesKey(lock) {
		return true
	}
	for i := range lock.Holders {
		if c.matchesSession(&lock.Holders[i].Session) {
			return true
		}
	}
	for i := range lock.Waiters {
		if c.matchesSession(&lock.Waiters[i].Session) {
			return true
		}
	}
	return false
}

func (c matcher) matchesKey(lock *monitor.Lock) bool {
	return c.filter.MatchString(lock.Key) || slices.ContainsFunc(lock.Guesses, c.filter.MatchString) || c.matchesDatabase(lock.Database)
}

func (c matcher) matchesDatabase(name string) bool {
	matches, known := c.databases[name]
	if !known {
		matches = c.filter.MatchString(name)
		c.databases[name] = matches
	}
	return matches
}

func (c matcher) matchesSession(session *monitor.Session) bool {
	id := session.ID()
	matches, known := c.sessions[id]
	if !known {
		fields := []string{view.Who(*session), id.Holder, session.User, session.Application, session.Client, session.State, session.Query}
		matches = c.filter.MatchString(strings.Join(fields, "\n"))
		c.sessions[id] = matches
	}
	return matches
}

// matchesAny reports whether the filter matches a session or process, or a lock of it that is shown.
func (c matcher) matchesAny(p *sessionInfo) bool {
	shown := p.shownLock()
	return c.matchesSession(p.Session) || shown != nil && c.matchesKey(shown) || c.matchesOther(p)
}

// matchesOther reports whether the filter matches the lock that is not an advisory lock and that a session waits for.
func (c matcher) matchesOther(p *sessionInfo) bool {
	return p.otherLock() != nil && c.filter.MatchString(p.otherLock().String())
}
