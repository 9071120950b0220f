package querylock

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/pglock"
)

// rule is what a query locks, read from its Locks.
type rule struct {
	lines []line
	options
}

// options hold for all locks of a query.
type options struct {
	try       bool
	bounded   bool // maxWait was given
	maxWait   time.Duration
	savepoint bool
}

// line is one template with its arguments.
type line struct {
	template keytemplate.Template
	params   []argument
	shared   bool
}

// argument is a parameter of a template, and the number of the query's argument for it.
type argument struct {
	*keytemplate.Param
	number int
}

// parseRule reads what keytemplate.Lock.Use has written.
func parseRule(locks []string) (r rule, err error) {
	for _, text := range locks {
		lock, err := keytemplate.ParseLock(text)
		if err != nil {
			return rule{}, err
		}
		l := line{template: lock.Template, shared: lock.Shared}
		for _, p := range lock.Params() {
			n, ok := p.Number()
			if !ok {
				return rule{}, fmt.Errorf("%q: {%s} has no number", text, p.Name)
			}
			l.params = append(l.params, argument{p, n})
		}
		r.lines = append(r.lines, l)
		r.try = r.try || lock.Try
		r.savepoint = r.savepoint || lock.Savepoint
		if lock.MaxWait != nil {
			r.bounded, r.maxWait = true, *lock.MaxWait
		}
	}
	return r, nil
}

// wanted is a lock that a query asks for.
type wanted struct {
	key    pglock.Key
	shared bool
}

// locks makes the keys of the arguments. An array without elements makes none.
func (r rule) locks(arguments []any) (all []wanted, err error) {
	for _, line := range r.lines {
		names, err := line.names(arguments)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, wanted{pglock.NewKey(name), line.shared})
		}
	}
	return all, nil
}

// names makes one name, or of an array one for each element.
func (l line) names(arguments []any) ([]string, error) {
	values, array := make([]string, len(l.params)), -1
	var many []any
	for i, p := range l.params {
		if p.number > len(arguments) {
			return nil, fmt.Errorf("lock %s: {%s} is argument %d of %d", l.template, p.Name, p.number, len(arguments))
		}
		var err error
		if p.Array {
			array = i
			many, err = elements(arguments[p.number-1])
		} else {
			values[i], err = encode(p.Type, arguments[p.number-1])
		}
		if err != nil {
			return nil, l.invalid(p.Param, err)
		}
	}
	if array < 0 {
		return l.name(nil, values)
	}
	var names []string
	for i, element := range many {
		text, err := encode(l.params[array].Type, element)
		if err != nil {
			return nil, l.invalid(l.params[array].Param, fmt.Errorf("element %d: %w", i+1, err))
		}
		values[array] = text
		if names, err = l.name(names, values); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (l line) name(names, values []string) ([]string, error) {
	name, err := l.template.Name(values)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", pglock.ErrInvalidKey, err)
	}
	return append(names, name), nil
}

func (l line) invalid(p *keytemplate.Param, err error) error {
	return fmt.Errorf("%w: lock %s: {%s}: %w", pglock.ErrInvalidKey, l.template, p.Name, err)
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
