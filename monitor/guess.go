package monitor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Guess is a tool that is known to use the number of a key that has no name.
type Guess struct {
	// Tool is the tool, such as "Rails".
	Tool string `json:"tool"`
	// Text says what the key is for, such as "Rails migrations of database shop". Parts of it can come from the server
	// or from the lock's holder.
	Text string `json:"text"`
	// Confidence says how likely it is.
	Confidence Confidence `json:"confidence"`
}

// Confidence says how likely a [Guess] is.
type Confidence string

const (
	// ConfidenceProbable is for numbers that another program is unlikely to use by chance.
	ConfidenceProbable Confidence = "probably"
	// ConfidencePossible is for numbers that other programs may well use, such as 1.
	ConfidencePossible Confidence = "possibly"
)

// String returns the guess as text, such as "probably Rails migrations of database shop".
func (g Guess) String() string { return string(g.Confidence) + " " + g.Text }

// Label describes the lock in a few words: its Key or, if that has no name, a probable guess. It leaves out guesses that
// are only possible. The label can contain names from the server.
func (l Lock) Label() string {
	switch {
	case l.Kind == KindSemaphore && l.Limit > 0:
		return fmt.Sprintf("semaphore %s, %d of %d used", l.Key, l.Used, l.Limit)
	case l.Kind == KindSemaphore:
		return fmt.Sprintf("semaphore %s, %d used", l.Key, l.Used)
	case l.Kind == KindLeader:
		return "leader of " + l.Key
	case l.Kind == KindTick:
		return "tick of " + l.Key
	}
	var likely []string
	for _, guess := range l.Guesses {
		if guess.Confidence == ConfidenceProbable {
			likely = append(likely, guess.Text)
		}
	}
	if len(likely) == 0 {
		return l.Key
	}
	return string(ConfidenceProbable) + " " + strings.Join(likely, " or ")
}

// guesser guesses which tools use keys that have no name.
type guesser struct {
	from sources
	// repacked names the tables of the connected database that pg_repack works on, by their OID.
	repacked map[uint32]string
	// companions are the keys that guarded transactions take, each with the key of the lock that guards them.
	companions map[identity]string
	// computed are the keys of tools, by the name of the database.
	computed map[string]map[int64][]Guess
}

func newGuesser(grouped map[identity]*Lock, t tables, from sources) (*guesser, error) {
	g := &guesser{from: from, companions: map[identity]string{}, computed: map[string]map[int64][]Guess{}}
	if text := t.rows[0].Repacked; text != nil {
		if err := json.Unmarshal(text, &g.repacked); err != nil {
			return nil, fmt.Errorf("read the tables of pg_repack: %w", err)
		}
	}
	if guarded(t) {
		for id, lock := range grouped {
			for _, shared := range []bool{false, true} {
				companion := lockkeys.Companion(lock.ID(), shared)
				g.companions[identity{id.database, int16(driver.SpaceBigint), companion}] = lock.Key
			}
		}
	}
	return g, nil
}

// guarded reports whether a lock may have guarded a transaction. Its session then has an identity.
func guarded(t tables) bool {
	for id, row := range t.locks() {
		if isIdentityKey(id, row) {
			return true
		}
	}
	return false
}

// guesses returns the likelier ones first.
func (g *guesser) guesses(id identity, lock *Lock) []Guess {
	var all []Guess
	if key, ok := g.companions[id]; ok {
		all = append(all, Guess{"pglock", "transactions guarded by the lock of " + key, ConfidenceProbable})
	}
	for _, names := range append(g.from.queries.of(lock), g.from.given) {
		all = append(all, names.guesses[lock.ID()]...)
	}
	if id.space() == SpaceBigint {
		all = append(all, g.computedKeys(lock.Database)[id.number]...)
	}
	for _, known := range keyRanges {
		if text, ok := known.match(id); ok {
			all = append(all, Guess{known.tool, text, known.confidence})
		}
	}
	return g.nameTables(id, distinct(all))
}

// computedKeys returns the keys that tools compute from the name of a database.
func (g *guesser) computedKeys(database string) map[int64][]Guess {
	if keys, ok := g.computed[database]; ok {
		return keys
	}
	keys := map[int64][]Guess{}
	for _, known := range fixedKeys {
		keys[known.number] = append(keys[known.number], Guess{known.tool, known.text, known.confidence})
	}
	for _, known := range databaseKeys {
		number := known.number(database)
		keys[number] = append(keys[number], Guess{known.tool, fmt.Sprintf(known.text, database), ConfidenceProbable})
	}
	g.computed[database] = keys
	return keys
}

// nameTables adds the name of the table that pg_repack works on.
func (g *guesser) nameTables(id identity, guesses []Guess) []Guess {
	oid, ok := id.repacks()
	table, known := g.repacked[oid]
	if !ok || !known || id.database != g.from.registry.database {
		return guesses
	}
	for i := range guesses {
		if guesses[i].Tool == "pg_repack" {
			guesses[i].Text = "pg_repack of table " + table
		}
	}
	return guesses
}

// distinct removes duplicates, and puts the likelier guesses first.
func distinct(guesses []Guess) []Guess {
	var all []Guess
	for _, guess := range guesses {
		if !slices.Contains(all, guess) {
			all = append(all, guess)
		}
	}
	slices.SortStableFunc(all, func(a, b Guess) int {
		return compareBool(a.Confidence == ConfidencePossible, b.Confidence == ConfidencePossible)
	})
	return all
}
