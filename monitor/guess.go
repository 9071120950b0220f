package monitor

import (
	"fmt"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// guesser guesses which tools use keys that have no name.
type guesser struct {
	from sources
	// companions are the keys that guarded transactions take, each with the key of the lock that guards them.
	companions map[identity]string
	// computed are the keys of tools, by the name of the database.
	computed map[string]map[int64][]string
}

func newGuesser(grouped map[identity]*Lock, t tables, from sources) *guesser {
	g := &guesser{from: from, companions: map[identity]string{}, computed: map[string]map[int64][]string{}}
	if guarded(t) {
		for id, lock := range grouped {
			for _, shared := range []bool{false, true} {
				companion := lockkeys.Companion(lock.ID(), shared)
				g.companions[identity{id.database, int16(driver.SpaceBigint), companion}] = lock.Key
			}
		}
	}
	return g
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

// guesses returns what tools use a key for, each once.
func (g *guesser) guesses(id identity, lock *Lock) (all []string) {
	if key, ok := g.companions[id]; ok {
		all = append(all, "transactions guarded by the lock of "+key)
	}
	for texts := range g.from.of(lock) {
		if text, ok := texts.ofRails[lock.ID()]; ok {
			all = append(all, fmt.Sprintf("with_advisory_lock's lock %q", text))
		}
	}
	if id.space() == spaceBigint {
		all = append(all, g.computedKeys(lock.Database)[id.number]...)
	}
	if text := inRange(id); text != "" {
		all = append(all, text)
	}
	var distinct []string
	for _, text := range all {
		if !slices.Contains(distinct, text) {
			distinct = append(distinct, text)
		}
	}
	return distinct
}

// computedKeys returns the keys that tools compute from the name of a database, and those that they take in each.
func (g *guesser) computedKeys(database string) map[int64][]string {
	if keys, ok := g.computed[database]; ok {
		return keys
	}
	keys := map[int64][]string{}
	for number, text := range fixedKeys {
		keys[number] = append(keys[number], text)
	}
	for _, known := range databaseKeys {
		number := known.number(database)
		keys[number] = append(keys[number], fmt.Sprintf(known.text, database))
	}
	g.computed[database] = keys
	return keys
}
