package journal

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pglock-toolkit/pglock/pglock"
)

// lockCall matches a call that takes an advisory lock and whose arguments are not calls.
var lockCall = regexp.MustCompile(`(?i)advisory_(?:xact_)?lock(?:_shared)?\s*\(([^()]*)\)`)

// mayTake reports whether a statement may be the one that took a key. A statement that names other keys as numbers, or
// still waits for another lock, must name this key.
func mayTake(query string, key pglock.KeyID, waits bool) bool {
	if !strings.Contains(strings.ToLower(query), "advisory") {
		return false
	}
	calls := lockCall.FindAllStringSubmatch(query, -1)
	unnamed := len(calls) == 0
	for _, call := range calls {
		named, ok := keyFromArguments(call[1])
		if ok && named == key {
			return true
		}
		unnamed = unnamed || !ok
	}
	return unnamed && !waits
}

// keyFromArguments returns the key that the arguments of a call name, if they are numbers.
func keyFromArguments(arguments string) (pglock.KeyID, bool) {
	texts, bits := strings.Split(arguments, ","), 64
	if len(texts) == 2 {
		bits = 32
	}
	numbers := slices.Collect(func(yield func(int64) bool) {
		for _, text := range texts {
			if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, bits); err != nil || !yield(n) {
				return
			}
		}
	})
	switch {
	case len(texts) == 1 && len(numbers) == 1:
		return pglock.Int64Key(numbers[0]).ID(), true
	case len(texts) == 2 && len(numbers) == 2:
		return pglock.PairKey(int32(numbers[0]), int32(numbers[1])).ID(), true
	}
	return pglock.KeyID{}, false
}
