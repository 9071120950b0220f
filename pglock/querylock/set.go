package querylock

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// ErrUnknownQuery says that a statement given to a [Tx] or [SQLTx] is not one of the generated package's queries: it
// is hand-written, or its text has changed since it was generated. Use the transaction itself for hand-written SQL;
// generate again after a query has changed.
var ErrUnknownQuery = errors.New("not a query that the generated locks know")

// Version1 is the version of the generated code that this package runs. Generated packages name theirs, so one of a newer
// generator does not compile: update pglock.
const Version1 = true

// Query is a query as the generator saw it. Most queries have no locks.
type Query struct {
	// Name is the query's name.
	Name string
	// Digest is [Digest] of its full text.
	Digest string
	// Try refuses locks that are held elsewhere, instead of waiting for them.
	Try bool
	// MaxWait bounds the wait for the locks. Without it the wait ends with the context.
	MaxWait time.Duration
	// Savepoint keeps the transaction usable when a lock is refused.
	Savepoint bool
	// Locks are what the query locks.
	Locks []Lock
}

// Digest returns what a [Query] is recognized by: 32 hexadecimal digits of the SHA-256 of its text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Set is the templates and queries of a generated package. It may be used from many goroutines.
type Set struct {
	templates []Template
	queries   map[string]*Query
	err       error    // what is wrong with the generated code
	known     sync.Map // of *Query, by the query's full text
}

// NewSet returns the set of a generated package. If its arguments are wrong, every query returns the error.
func NewSet(templates []Template, queries []Query) *Set {
	s := &Set{templates: templates, queries: make(map[string]*Query, len(queries))}
	for _, template := range templates {
		s.err = cmp.Or(s.err, template.check())
	}
	for _, q := range queries {
		err := q.check()
		if s.queries[q.Name] != nil {
			err = errors.New("there are two of this name")
		}
		if err != nil {
			s.err = cmp.Or(s.err, fmt.Errorf("query %s: %w", q.Name, err))
		}
		s.queries[q.Name] = &q
	}
	return s
}

// Label returns the template of a name, such as invoice:{id} for invoice:42, and "other" for a name that none of the
// templates makes. So a metric has at most one label more than there are templates.
func (s *Set) Label(name string) string {
	for _, template := range s.templates {
		if _, ok := template.values(name); ok {
			return template.String()
		}
	}
	return "other"
}

// find recognizes a query by its name and its full text.
func (s *Set) find(text string) (*Query, error) {
	if found, ok := s.known.Load(text); ok {
		return found.(*Query), nil
	}
	if s.err != nil {
		return nil, fmt.Errorf("pglock: the generated locks are broken: %w", s.err)
	}
	name := nameOf(text)
	query, ok := s.queries[name]
	if !ok {
		return nil, fmt.Errorf("pglock: %.60q: %w (use the transaction itself for hand-written SQL)", text, ErrUnknownQuery)
	}
	if Digest(text) != query.Digest {
		return nil, fmt.Errorf("pglock: query %s: %w: its text is not the one that its lock was generated from "+
			"(generate both again, together)", name, ErrUnknownQuery)
	}
	s.known.Store(text, query)
	return query, nil
}

// nameOf reads the line that sqlc writes before each query: "-- name: PayInvoice :exec".
func nameOf(text string) string {
	rest, ok := strings.CutPrefix(text, "-- name: ")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return name
}
