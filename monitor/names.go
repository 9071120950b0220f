package monitor

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// registryMissing returns why there are no registered names, or "" if the registry can be read.
func registryMissing(t tables) string {
	switch row := t.rows[0]; {
	case !row.SchemaExists:
		return fmt.Sprintf("schema pglock is not installed in database %q: run pglock migrate up", t.server.Database)
	case !row.Ours:
		owner := ""
		if len(t.looked.Findings) > 0 {
			owner = fmt.Sprintf(" (%s)", t.looked.Findings[0])
		}
		return fmt.Sprintf("schema pglock of database %q was not created by pglock%s, so there is no name registry",
			t.server.Database, owner)
	case !row.Readable:
		return fmt.Sprintf("role %[1]s may not read the name registry: "+
			"GRANT USAGE ON SCHEMA pglock TO %[1]s; GRANT SELECT ON pglock.names TO %[1]s", quote(t.server.Role))
	}
	return ""
}

// registry has the registered names of a database.
type registry struct {
	database uint32 // its OID
	byNumber registered
}

func newRegistry(t tables) registry {
	return registry{t.rows[0].ConnectedOid.Uint32, t.names}
}

func (r registry) names(id identity) []string {
	if id.space() != SpaceBigint || id.database != r.database {
		return nil
	}
	return r.byNumber[id.number]
}

// sources are where the names of locks come from.
type sources struct {
	registry registry
	given    *Dictionary
	queries  queryTexts
	seen     *seenNames
}

// setNames sets the name of each lock or, if it has none, the guesses.
func setNames(grouped map[identity]*Lock, t tables, o options) error {
	from := sources{newRegistry(t), o.names, queryTexts{}, o.seen}
	for id, lock := range grouped {
		lock.Names = append(lock.Names, from.names(id, lock)...)
		lock.Key = id.text(lock.Names)
	}
	guesser, err := newGuesser(grouped, t, from)
	if err != nil {
		return err
	}
	for id, lock := range grouped {
		if len(lock.Names) == 0 {
			lock.Guesses = append(lock.Guesses, guesser.guesses(id, lock)...)
		}
	}
	return nil
}

// names tries one source after another. Only the registry can report a collision.
func (s sources) names(id identity, lock *Lock) []string {
	if registered := s.registry.names(id); len(registered) > 0 {
		return registered
	}
	for _, names := range s.queries.of(lock) {
		if name, ok := names.name(id); ok {
			s.seen.note(id, name)
			return []string{name}
		}
	}
	for _, names := range []nameSource{s.given, ownNames, s.seen} {
		if name, ok := names.name(id); ok {
			return []string{name}
		}
	}
	return nil
}

// nameSource is a source of names of keys.
type nameSource interface{ name(identity) (string, bool) }

// ownNames are the names of locks that pglock takes for itself.
var ownNames = NewDictionary("pglock:migrations")

// queryTexts has a dictionary of the texts in each query.
type queryTexts map[string]*Dictionary

// of returns the texts in the queries of the lock's holders and waiters.
func (q queryTexts) of(lock *Lock) []*Dictionary {
	var all []*Dictionary
	for _, holder := range lock.Holders {
		all = q.appendTo(all, holder.Query)
	}
	for _, waiter := range lock.Waiters {
		all = q.appendTo(all, waiter.Query)
	}
	return all
}

func (q queryTexts) appendTo(all []*Dictionary, query string) []*Dictionary {
	names, known := q[query]
	if !known {
		names = NewDictionary(textsIn(query)...)
		q[query] = names
	}
	if names.Len() == 0 {
		return all
	}
	return append(all, names)
}

// quote quotes a role for use in a statement.
func quote(role string) string {
	return pgx.Identifier{role}.Sanitize()
}
