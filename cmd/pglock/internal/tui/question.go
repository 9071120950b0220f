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

// page is one of the ways to look at a snapshot.
type page int

const (
	pageKeys page = iota
	pageTree
	pageSessions
	pages
)

// question is what the user wants to see of a snapshot.
type question struct {
	page page
	// order is the index of each page's sort order, and reversed reverses it.
	order    [pages]int
	reversed [pages]bool
	// only restricts the locks permanently; waiting restricts them, for now, to those with waiters.
	only    view.Filter
	waiting bool
	// flat shows all keys, and otherwise unfolded has the groups whose keys are shown. It is never changed, only replaced.
	flat     bool
	unfolded map[group]bool
	// filter must match a key or one of its sessions; nil matches everything.
	filter *regexp.Regexp
	// several says that there is more than one server.
	several bool
}

// about is the question for one server: if the filter matches the server, it lets all of it through.
func (q question) about(label string) question {
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

// chooser finds the locks that a question is about. It remembers which sessions and databases match, since each can
// have many locks.
type chooser struct {
	question
	sessions  map[monitor.SessionID]bool
	databases map[string]bool
}

func newChooser(q question) chooser {
	return chooser{q, map[monitor.SessionID]bool{}, map[string]bool{}}
}

// allowed reports whether a lock is among those that may be shown at all.
func (c chooser) allowed(lock *monitor.Lock) bool { return c.only.Shows(*lock) }

// shows reports whether an allowed lock is shown.
func (c chooser) shows(lock *monitor.Lock) bool {
	return (!c.waiting || len(lock.Waiters) > 0) && c.matches(lock)
}

func (c chooser) matches(lock *monitor.Lock) bool {
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

func (c chooser) matchesKey(lock *monitor.Lock) bool {
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

func (c chooser) matchesGuess(guess monitor.Guess) bool { return c.filter.MatchString(guess.String()) }

func (c chooser) matchesSession(session *monitor.Session) bool {
	id := session.ID()
	if matches, known := c.sessions[id]; known {
		return matches
	}
	matches := c.filter.MatchString(strings.Join([]string{view.Who(*session), session.User, session.Application,
		session.Client, session.State, session.Query}, "\n"))
	c.sessions[id] = matches
	return matches
}
