package querylock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Lock is a lock that a query takes.
type Lock struct {
	// Key is the template of its key.
	Key Template
	// Args are, for each parameter of the template, the number of the query's argument: 1 for $1.
	Args []int
	// Each says which of Args is an array, 1 for the first: the query takes a lock for each of its elements. 0: none is.
	Each int
	// Shared asks for a shared lock.
	Shared bool
}

// agrees reports whether both queries can have their locks taken together.
func (q *Query) agrees(other *Query) bool {
	return q.Try == other.Try && q.MaxWait == other.MaxWait && q.Savepoint == other.Savepoint
}

// check finds what no generator writes.
func (q *Query) check() error {
	switch {
	case q.Try && q.MaxWait != 0:
		return errors.New("it has both Try and MaxWait")
	case q.MaxWait != 0 && q.MaxWait < time.Millisecond:
		return fmt.Errorf("its MaxWait is %v, and the least is 1ms", q.MaxWait)
	}
	for _, l := range q.Locks {
		if err := l.check(); err != nil {
			return err
		}
	}
	return nil
}

func (l Lock) check() error {
	if err := l.Key.check(); err != nil {
		return err
	}
	switch {
	case len(l.Args) != l.Key.params():
		return fmt.Errorf("lock %s has %d arguments for %d parameters", l.Key, len(l.Args), l.Key.params())
	case slices.ContainsFunc(l.Args, func(n int) bool { return n < 1 }):
		return fmt.Errorf("lock %s: the arguments %v are not all numbers from 1", l.Key, l.Args)
	case l.Each < 0 || l.Each > len(l.Args):
		return fmt.Errorf("lock %s: Each is %d of %d arguments", l.Key, l.Each, len(l.Args))
	}
	return nil
}

// wanted is a lock that a query asks for.
type wanted struct {
	key    pglock.Key
	shared bool
}

// locks makes the keys of the arguments. An array without elements makes none.
func (q *Query) locks(arguments []any) (all []wanted, err error) {
	for _, l := range q.Locks {
		names, err := l.names(arguments)
		if err != nil {
			return nil, fmt.Errorf("pglock: query %s: %w", q.Name, err)
		}
		for _, name := range names {
			all = append(all, wanted{pglock.NewKey(name), l.Shared})
		}
	}
	return all, nil
}

// names makes one name, or of an array one for each element.
func (l Lock) names(arguments []any) (names []string, err error) {
	values, array := make([]string, len(l.Args)), l.Each-1
	var elements []any
	for i, n := range l.Args {
		if n > len(arguments) {
			return nil, fmt.Errorf("lock %s: {%s} is argument %d of %d", l.Key, l.Key[i].Param, n, len(arguments))
		}
		if i == array {
			elements, err = elementsOf(arguments[n-1])
		} else {
			values[i], err = encode(l.Key[i].Type, arguments[n-1])
		}
		if err != nil {
			return nil, l.invalid(i, err)
		}
	}
	if array < 0 {
		return l.name(nil, values)
	}
	for i, element := range elements {
		if values[array], err = encode(l.Key[array].Type, element); err != nil {
			return nil, l.invalid(array, fmt.Errorf("element %d: %w", i+1, err))
		}
		if names, err = l.name(names, values); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (l Lock) name(names, values []string) ([]string, error) {
	name, err := l.Key.name(values)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", pglock.ErrInvalidKey, err)
	}
	return append(names, name), nil
}

func (l Lock) invalid(param int, err error) error {
	return fmt.Errorf("%w: lock %s: {%s}: %w", pglock.ErrInvalidKey, l.Key, l.Key[param].Param, err)
}

// inOrder sorts the locks into the order in which pglock takes several, so that no two queries can wait for each other,
// and keeps one of those with the same key, the exclusive one.
func inOrder(locks []wanted) []wanted {
	if len(locks) < 2 {
		return locks
	}
	locks = slices.Clone(locks)
	slices.SortFunc(locks, func(a, b wanted) int {
		return cmp.Or(a.key.ID().Compare(b.key.ID()), strings.Compare(mode(a.shared), mode(b.shared)))
	})
	return slices.CompactFunc(locks, func(a, b wanted) bool { return a.key.Equal(b.key) })
}

func mode(shared bool) string {
	if shared {
		return "shared"
	}
	return "exclusive"
}

// run is locks that follow each other in the order and have one mode, so that one statement takes them.
type run struct {
	keys   []pglock.Key
	shared bool
}

func runs(locks []wanted) (all []run) {
	for _, lock := range inOrder(locks) {
		if n := len(all); n == 0 || all[n-1].shared != lock.shared {
			all = append(all, run{shared: lock.shared})
		}
		last := &all[len(all)-1]
		last.keys = append(last.keys, lock.key)
	}
	return all
}
