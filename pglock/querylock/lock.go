package querylock

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/pglock"
)

// lock is a lock that a query takes.
type lock struct {
	key    keytemplate.Template
	args   []int // for each parameter of the key, the index of the query's argument
	array  int   // the parameter whose argument is an array, for a lock of each of its elements; -1: none is
	shared bool
}

// newLock gives a lock the key of its template.
func newLock(parsed keytemplate.Lock, key keytemplate.Template) (lock, error) {
	l := lock{key: key, array: -1, shared: parsed.Shared}
	if key == nil {
		return l, fmt.Errorf("lock %s has no key", parsed.Template)
	}
	for i, param := range parsed.Params() {
		n, ok := param.Number()
		if !ok {
			return l, fmt.Errorf("lock %s: {%s} is not the number of an argument", parsed.Template, param.Param)
		}
		if param.Array {
			l.array = i
		}
		l.args = append(l.args, n-1)
	}
	return l, nil
}

// wanted is a lock that a query asks for.
type wanted struct {
	key    pglock.Key
	shared bool
}

// wanted makes the keys of the arguments. An array without elements makes none.
func (q *query) wanted(arguments []any) (all []wanted, err error) {
	for _, l := range q.locks {
		names, err := l.names(arguments)
		if err != nil {
			return nil, fmt.Errorf("pglock: query %s: %w", q.name, err)
		}
		for _, name := range names {
			all = append(all, wanted{pglock.NewKey(name), l.shared})
		}
	}
	return all, nil
}

// names makes one name, or of an array one for each element.
func (l lock) names(arguments []any) (names []string, err error) {
	values := make([]string, len(l.args))
	var elements []any
	for i, n := range l.args {
		if n >= len(arguments) {
			return nil, fmt.Errorf("lock %s: {%s} is argument %d of %d", l.key, l.key[i].Param, n+1, len(arguments))
		}
		if i == l.array {
			elements, err = elementsOf(arguments[n])
		} else {
			values[i], err = encode(l.key[i].Type, arguments[n])
		}
		if err != nil {
			return nil, l.invalid(i, err)
		}
	}
	if l.array < 0 {
		return l.name(nil, values)
	}
	for i, element := range elements {
		if values[l.array], err = encode(l.key[l.array].Type, element); err != nil {
			return nil, l.invalid(l.array, fmt.Errorf("element %d: %w", i+1, err))
		}
		if names, err = l.name(names, values); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (l lock) name(names, values []string) ([]string, error) {
	name, err := l.key.Name(values)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", pglock.ErrInvalidKey, err)
	}
	return append(names, name), nil
}

func (l lock) invalid(param int, err error) error {
	return fmt.Errorf("%w: lock %s: {%s}: %w", pglock.ErrInvalidKey, l.key, l.key[param].Param, err)
}

// run is locks that follow each other in the order and have one mode, so that one statement takes them.
type run struct {
	keys   []pglock.Key
	shared bool
}

// runs sorts the locks into the order in which pglock takes several, so that no two queries can wait for each other. Of
// those with the same key it keeps one, the exclusive one.
func runs(locks []wanted) (all []run) {
	locks = slices.Clone(locks)
	slices.SortFunc(locks, func(a, b wanted) int {
		return cmp.Or(a.key.ID().Compare(b.key.ID()), cmp.Compare(mode(a), mode(b)))
	})
	for _, lock := range slices.CompactFunc(locks, func(a, b wanted) bool { return a.key.Equal(b.key) }) {
		if n := len(all); n == 0 || all[n-1].shared != lock.shared {
			all = append(all, run{shared: lock.shared})
		}
		last := &all[len(all)-1]
		last.keys = append(last.keys, lock.key)
	}
	return all
}

// mode sorts exclusive locks first.
func mode(w wanted) int {
	if w.shared {
		return 1
	}
	return 0
}
