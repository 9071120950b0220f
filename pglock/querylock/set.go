package querylock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// ErrUnknownQuery says that a statement given to a [Tx] or [SQLTx] is not one of the generated package's queries: it
// is hand-written, or its text has changed since it was generated. Use the transaction itself for hand-written SQL;
// generate again after a query has changed.
var ErrUnknownQuery = errors.New("not a query that the generated locks know")

// Query is a query as the generator saw it.
type Query struct {
	// Name is the query's name.
	Name string
	// Digest is [Digest] of its full text.
	Digest string
	// Locks are what the query locks: templates whose parameters name the query's, and options, as in
	// "invoice:{id=$1 bigint} max_wait=2s". Most queries have none.
	Locks []string
}

// Digest returns what a [Query] is recognized by: 32 hexadecimal digits of the SHA-256 of its text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Set is the templates and queries of a generated package. It may be used from many goroutines.
type Set struct {
	templates []keytemplate.Template
	queries   map[string]Query
	err       error    // what is wrong with the generated code
	known     sync.Map // of *known, by the query's full text
}

// known is a query that has been recognized.
type known struct {
	name string
	rule rule
}

// NewSet returns the set of a generated package. If its arguments are wrong, every query returns the error.
func NewSet(templates []string, queries []Query) *Set {
	s := &Set{queries: make(map[string]Query, len(queries))}
	for _, text := range templates {
		template, err := keytemplate.Parse(text)
		s.templates, s.err = append(s.templates, template), errors.Join(s.err, err)
	}
	for _, q := range queries {
		s.queries[q.Name] = q
	}
	return s
}

// Label returns the template of a name, such as invoice:{id} for invoice:42, and "other" for a name that none of the
// templates makes. So a metric has at most one label more than there are templates.
func (s *Set) Label(name string) string {
	for _, template := range s.templates {
		if _, ok := template.Values(name); ok {
			return template.String()
		}
	}
	return "other"
}

// find recognizes a query by its name and its full text.
func (s *Set) find(text string) (*known, error) {
	if found, ok := s.known.Load(text); ok {
		return found.(*known), nil
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
	rule, err := parseRule(query.Locks)
	if err != nil {
		return nil, fmt.Errorf("pglock: query %s: the generated locks are broken: %w", name, err)
	}
	found := &known{name, rule}
	s.known.Store(text, found)
	return found, nil
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
