package monitor

import (
	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// sources are where the names of locks come from.
type sources struct {
	registered registered
	database   uint32 // the OID of the database that these are of
	queries    map[string]*texts
	memory     *memory
}

// setNames sets the name of each lock or, if it has none, the guesses.
func setNames(grouped map[identity]*Lock, t tables, o config) {
	from := sources{t.names, t.rows[0].ConnectedOid.Uint32, map[string]*texts{}, o.memory}
	for id, lock := range grouped {
		lock.Names = append(lock.Names, from.names(id, lock)...)
		lock.Key = id.text(lock.Names)
	}
	guesser := newGuesser(grouped, t, from)
	for id, lock := range grouped {
		if len(lock.Names) == 0 {
			lock.Guesses = append(lock.Guesses, guesser.guesses(id, lock)...)
		}
	}
}

// ownName is the name of a lock that pglock takes for itself.
const ownName = "pglock:migrations"

// names tries one source after another. Only the registry can report a collision. Names from other sources are certain,
// since their hash is the key.
func (s sources) names(id identity, lock *Lock) []string {
	if id.space() != spaceBigint {
		return nil
	}
	if names := s.registered[id.number]; id.database == s.database && len(names) > 0 {
		return names
	}
	for texts := range s.of(lock) {
		if name, ok := texts.byNumber[id.number]; ok {
			s.memory.note(id, name)
			return []string{name}
		}
	}
	if id.number == pglock.NewKey(ownName).Int64() {
		return []string{ownName}
	}
	if name, ok := s.memory.name(id); ok {
		return []string{name}
	}
	return nil
}

// of yields the texts in the queries of the lock's holders and waiters.
func (s sources) of(lock *Lock) func(func(*texts) bool) {
	return func(yield func(*texts) bool) {
		for i := range lock.Holders {
			if !yield(s.in(lock.Holders[i].Query)) {
				return
			}
		}
		for i := range lock.Waiters {
			if !yield(s.in(lock.Waiters[i].Query)) {
				return
			}
		}
	}
}

func (s sources) in(query string) *texts {
	found, known := s.queries[query]
	if !known {
		found = newTexts(textsIn(query))
		s.queries[query] = found
	}
	return found
}

// texts are texts in a query that can be names of locks, by their hashes. A hash cannot be reversed.
type texts struct {
	byNumber map[int64]string
	ofRails  map[driver.KeyID]string // with_advisory_lock's
}

func newTexts(all []string) *texts {
	t := &texts{map[int64]string{}, map[driver.KeyID]string{}}
	for _, text := range all {
		t.byNumber[pglock.NewKey(text).Int64()] = text
		t.ofRails[withAdvisoryLock(text)] = text
	}
	return t
}

// quote quotes a role for use in a statement.
func quote(role string) string {
	return pgx.Identifier{role}.Sanitize()
}
