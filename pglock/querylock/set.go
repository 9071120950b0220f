package querylock

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/pglock"
)

// ErrUnknownQuery says that a statement given to a [Tx] is not one of the generated package's queries: it is hand-written,
// or its text has changed since it was generated. Use the transaction itself for hand-written SQL; generate again after
// a query has changed.
var ErrUnknownQuery = errors.New("not a query that the generated locks know")

// Query is a query as the generator saw it.
type Query struct {
	// Name is the query's name.
	Name string
	// Digest is [Digest] of its full text.
	Digest string
	// Locks are the locks that it takes, such as "invoice:{id=$1} shared max_wait=2s". Most queries have none.
	Locks []string
}

// Digest returns what a [Query] is recognized by: 32 hexadecimal digits of the SHA-256 of its text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Set is the keys and queries of a generated package. It may be used from many goroutines.
type Set struct {
	keys    []keytemplate.Template
	byText  map[string]keytemplate.Template // the keys, by their declarations
	queries map[string]*query
	err     error                   // what is wrong with the generated code
	names   func() []*regexp.Regexp // of each key's names
	known   sync.Map                // of *query, by the query's full text
}

// query is a [Query] that has been read.
type query struct {
	name, digest        string
	locks               []lock
	keytemplate.Options // of all its locks
}

// NewSet returns the set of a generated package, whose keys are declared as "invoice:{id bigint}". If its arguments are
// wrong, every query and every key returns the error.
func NewSet(keys []string, queries []Query) *Set {
	s := &Set{byText: map[string]keytemplate.Template{}, queries: map[string]*query{}}
	templates := map[string]keytemplate.Template{}
	for _, key := range keys {
		template, err := keytemplate.Parse(key)
		s.err = cmp.Or(s.err, err)
		s.keys, s.byText[key], templates[template.String()] = append(s.keys, template), template, template
	}
	for _, q := range queries {
		read, err := readQuery(q, templates)
		if err == nil && s.queries[q.Name] != nil {
			err = errors.New("there are two of this name")
		}
		if err != nil {
			s.err = cmp.Or(s.err, fmt.Errorf("query %s: %w", q.Name, err))
		}
		s.queries[q.Name] = read
	}
	if s.err != nil {
		s.err = fmt.Errorf("the generated locks are broken: %w", s.err)
	}
	s.names = sync.OnceValue(func() (names []*regexp.Regexp) {
		for _, key := range s.keys {
			names = append(names, key.Names())
		}
		return names
	})
	return s
}

func readQuery(q Query, keys map[string]keytemplate.Template) (*query, error) {
	read := &query{name: q.Name, digest: q.Digest}
	for i, text := range q.Locks {
		parsed, err := keytemplate.ParseLock(text)
		if err != nil {
			return nil, err
		}
		l, err := newLock(parsed, keys[parsed.Template.String()])
		switch {
		case err != nil:
			return nil, err
		case i > 0 && parsed.Options != read.Options:
			return nil, errors.New("its locks have different options")
		}
		read.locks, read.Options = append(read.locks, l), parsed.Options
	}
	return read, nil
}

// Key returns the key of a declaration of the set with these values of its parameters: int64, string, [16]byte,
// bool, time.Time, or whatever else sqlc has for their types. If the name has more than [pglock.MaxName] bytes, a
// value makes no name, or values are missing or too many, the key is invalid: functions that take it return
// [pglock.ErrInvalidKey] and the cause.
func (s *Set) Key(declaration string, values ...any) pglock.Key {
	name, err := s.name(declaration, values)
	if err != nil {
		return hooks.InvalidKey(err.Error()).(pglock.Key)
	}
	return pglock.NewKey(name)
}

func (s *Set) name(declaration string, values []any) (string, error) {
	template := s.byText[declaration]
	params := template.Params()
	switch {
	case s.err != nil:
		return "", s.err
	case template == nil:
		return "", fmt.Errorf("the generated locks have no key %s", declaration)
	case len(values) != len(params):
		return "", fmt.Errorf("lock %s has %d values for %d parameters", template, len(values), len(params))
	}
	texts := make([]string, len(values))
	for i, value := range values {
		var err error
		if texts[i], err = encode(params[i].Type, value); err != nil {
			return "", fmt.Errorf("lock %s: {%s}: %w", template, params[i].Param, err)
		}
	}
	return template.Name(texts)
}

// Label returns the template of a name, such as invoice:{id} for invoice:42, and "other" for a name that none of the
// keys makes. So a metric has at most one label more than there are keys.
func (s *Set) Label(name string) string {
	if len(name) <= pglock.MaxName {
		for i, names := range s.names() {
			if strings.HasPrefix(name, s.keys[i][0].Text) && names.MatchString(name) {
				return s.keys[i].String()
			}
		}
	}
	return "other"
}

// find recognizes a query by its name and its full text.
func (s *Set) find(text string) (*query, error) {
	if found, ok := s.known.Load(text); ok {
		return found.(*query), nil
	}
	if s.err != nil {
		return nil, fmt.Errorf("pglock: %w", s.err)
	}
	name := nameOf(text)
	found, ok := s.queries[name]
	if !ok {
		return nil, fmt.Errorf("pglock: %.60q: %w (use the transaction itself for hand-written SQL)", text, ErrUnknownQuery)
	}
	if Digest(text) != found.digest {
		return nil, fmt.Errorf("pglock: query %s: %w: its text is not the one that its lock was generated from "+
			"(generate both again, together)", name, ErrUnknownQuery)
	}
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
