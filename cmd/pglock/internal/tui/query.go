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
	pageSessions
	pages
)

// tableQuery is what the user wants to see of a snapshot.
type tableQuery struct {
	page page
	// order is the index of each page's sort order.
	order    [pages]int
	reversed [pages]bool
	// only limits the locks for the whole session. waiting limits them to those with waiters until the user changes it.
	only    view.Filter
	waiting bool
	// flat shows all keys. Otherwise unfolded has the groups whose keys are shown. The map is immutable.
	flat     bool
	unfolded map[group]bool
	// filter matches a key or one of its sessions; nil matches everything.
	filter *regexp.Regexp
	// multiServer reports that there is more than one server.
	multiServer bool
}

// forServer returns the query for one server. If the filter matches the server's label, it matches all its locks.
func (q tableQuery) forServer(label string) tableQuery {
	if q.filter != nil && label != "" && q.filter.MatchString(label) {
		q.filter = nil
	}
	return q
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
	sessions  map[monitor.SessionID]bool
	databases map[string]bool
}

func newMatcher(q tableQuery) matcher {
	return matcher{q, map[monitor.SessionID]bool{}, map[string]bool{}}
}

// allowed reports whether a lock may be shown at all.
func (c matcher) allowed(lock *monitor.Lock) bool { return c.only.Shows(*lock) }

// shows reports whether an allowed lock is shown.
func (c matcher) shows(lock *monitor.Lock) bool {
	return (!c.waiting || len(lock.Waiters) > 0) && c.matches(lock)
}

func (c matcher) matches(lock *monitor.Lock) bool {
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
	if c.filter.MatchString(lock.Key) || slices.ContainsFunc(lock.Guesses, c.matchesGuess) {
		return true
	}
	matches, known := c.databases[lock.Database]
	if !known {
		matches = c.filter.MatchString(lock.Database)
		c.databases[lock.Database] = matches
	}
	return matches
}

func (c matcher) matchesGuess(guess monitor.Guess) bool { return c.filter.MatchString(guess.String()) }

func (c matcher) matchesSession(session *monitor.Session) bool {
	id := session.ID()
	if matches, known := c.sessions[id]; known {
		return matches
	}
	matches := c.filter.MatchString(strings.Join([]string{view.Who(*session), session.User, session.Application,
		session.Client, session.State, session.Query}, "\n"))
	c.sessions[id] = matches
	return matches
}
