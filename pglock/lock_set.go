package pglock

import "slices"

// lockSet is the Locks on a hold: one, unless they are shared. It is small, since every hold has one.
type lockSet struct {
	one  *Lock
	more *[]*Lock
}

func (s *lockSet) add(k *Lock) {
	switch {
	case s.one == nil:
		s.one = k
	case s.more == nil:
		s.more = &[]*Lock{k}
	default:
		*s.more = append(*s.more, k)
	}
}

// remove removes k, and reports whether it was there.
func (s *lockSet) remove(k *Lock) bool {
	if s.one != k {
		return s.more != nil && removeOne(s.more, k)
	}
	s.one = nil
	if s.more != nil && len(*s.more) > 0 {
		last := len(*s.more) - 1
		s.one, (*s.more)[last] = (*s.more)[last], nil
		*s.more = (*s.more)[:last]
	}
	return true
}

func (s *lockSet) empty() bool { return s.one == nil }

// all returns all Locks of the set.
func (s *lockSet) all() []*Lock {
	switch {
	case s.one == nil:
		return nil
	case s.more == nil:
		return []*Lock{s.one}
	}
	return append(slices.Clone(*s.more), s.one)
}

// removeOne removes x from the list, and reports whether it was there.
func removeOne[T comparable](list *[]T, x T) bool {
	i := slices.Index(*list, x)
	if i < 0 {
		return false
	}
	*list = slices.Delete(*list, i, i+1)
	return true
}
