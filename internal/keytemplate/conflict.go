package keytemplate

import "strings"

// Conflict reports whether two templates of keys could make the same name. It takes every text of the bytes of a type's
// values for one of them, so it also finds some pairs that could not, such as a:{id bigint} and a:{id uuid}.
func Conflict(a, b Template) bool {
	if one, other := a[0].Text, b[0].Text; !strings.HasPrefix(one, other) && !strings.HasPrefix(other, one) {
		return false // as in most cases
	}
	if one, other := a.suffix(), b.suffix(); !strings.HasSuffix(one, other) && !strings.HasSuffix(other, one) {
		return false
	}
	x, y := a.steps(), b.steps()
	type pair struct{ x, y int }
	seen := map[pair]bool{}
	var meet func(at pair) bool
	meet = func(at pair) bool {
		if seen[at] {
			return false
		}
		seen[at] = true
		endX, endY := at.x == len(x), at.y == len(y)
		switch {
		case endX && endY:
			return true
		case !endX && x[at.x].optional && meet(pair{at.x + 1, at.y}), !endY && y[at.y].optional && meet(pair{at.x, at.y + 1}):
			return true
		case endX || endY || !common(x[at.x], y[at.y]):
			return false
		}
		for _, nextX := range x[at.x].next(at.x) {
			for _, nextY := range y[at.y].next(at.y) {
				if meet(pair{nextX, nextY}) {
					return true
				}
			}
		}
		return false
	}
	return meet(pair{})
}

// suffix returns the text with which all names end.
func (t Template) suffix() string {
	if last := t[len(t)-1]; last.Param == "" {
		return last.Text
	}
	return ""
}

// step is one byte of a name, or several if it repeats, or none if it is optional.
type step struct {
	has      func(b byte) bool
	repeats  bool
	optional bool
}

func (s step) next(at int) []int {
	if s.repeats {
		return []int{at, at + 1}
	}
	return []int{at + 1}
}

func (t Template) steps() (steps []step) {
	for _, p := range t {
		for i := range len(p.Text) {
			steps = append(steps, step{has: func(b byte) bool { return b == p.Text[i] }})
		}
		if p.Param != "" {
			steps = append(steps, step{has: p.Type.bytes(), repeats: true, optional: p.Type == Text})
		}
	}
	return steps
}

func common(a, b step) bool {
	for i := range 256 {
		if a.has(byte(i)) && b.has(byte(i)) {
			return true
		}
	}
	return false
}
