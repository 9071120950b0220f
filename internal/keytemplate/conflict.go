package keytemplate

import (
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/keytext"
)

// Conflict returns a name that both templates can make; ok is false if there is none. It runs both templates as
// automata on the same name.
func Conflict(a, b Template) (name string, ok bool) {
	if x, y := a.Prefix(), b.Prefix(); !strings.HasPrefix(x, y) && !strings.HasPrefix(y, x) {
		return "", false // as in most cases
	}
	if x, y := a.suffix(), b.suffix(); !strings.HasSuffix(x, y) && !strings.HasSuffix(y, x) {
		return "", false
	}
	return intersect(a.automaton(), b.automaton())
}

// Prefix returns the common prefix of all the template's names.
func (t Template) Prefix() string { return t.parts[0].literal }

// suffix returns the common suffix of all the template's names.
func (t Template) suffix() string { return t.parts[len(t.parts)-1].literal }

// byteSet is a set of bytes.
type byteSet [4]uint64

func setOf(bytes string) (s byteSet) {
	for _, b := range []byte(bytes) {
		s[b>>6] |= 1 << (b & 63)
	}
	return s
}

func (s byteSet) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }

// common returns a byte of both sets, a printable one if possible.
func common(a, b byteSet) (byte, bool) {
	for i := range 256 {
		c := byte(i + '0') // digits, letters, and then the rest
		if a.has(c) && b.has(c) {
			return c, true
		}
	}
	return 0, false
}

func (s byteSet) complement() byteSet { return byteSet{^s[0], ^s[1], ^s[2], ^s[3]} }

var (
	digit   = setOf("0123456789")
	nonZero = setOf("123456789")
	unbound = setOf(keytext.Specials).complement()
)

// automaton accepts the names of one template. State 0 is the first, and last accepts.
type automaton struct {
	edges [][]edge
	last  int
}

// edge leads to a state by a byte of a set, or by no byte.
type edge struct {
	bytes byteSet
	none  bool
	to    int
}

func (a *automaton) state() int {
	a.edges = append(a.edges, nil)
	return len(a.edges) - 1
}

func (a *automaton) add(from int, bytes byteSet, to int) {
	a.edges[from] = append(a.edges[from], edge{bytes: bytes, to: to})
}

func (a *automaton) skip(from, to int) {
	a.edges[from] = append(a.edges[from], edge{none: true, to: to})
}

// text adds a way through the bytes from one state to another.
func (a *automaton) text(from int, text string, to int) {
	for i := range len(text) - 1 {
		next := a.state()
		a.add(from, setOf(text[i:i+1]), next)
		from = next
	}
	a.add(from, setOf(text[len(text)-1:]), to)
}

func (t Template) automaton() *automaton {
	a := &automaton{}
	a.last = a.state()
	for _, p := range t.parts {
		from := a.last
		a.last = a.state()
		if p.param == nil {
			a.text(from, p.literal, a.last)
		} else {
			a.value(from, p.param.Type, a.last)
		}
	}
	return a
}

func (a *automaton) value(from int, t Type, to int) {
	switch t {
	case SmallInt, Integer, BigInt, TimestampTZ:
		sign, digits := a.state(), a.state()
		a.text(from, "-", sign)
		a.text(from, "0", to)
		a.add(from, nonZero, digits)
		a.add(sign, nonZero, digits)
		a.add(digits, digit, digits)
		a.skip(digits, to)
	case Boolean:
		a.text(from, "true", to)
		a.text(from, "false", to)
	case UUID:
		for i := range 36 {
			next := a.state()
			a.add(from, setOf(keytext.UUIDBytes(i)), next)
			from = next
		}
		a.skip(from, to)
	default:
		loop := a.state()
		a.skip(from, loop)
		a.add(loop, unbound, loop)
		for _, s := range []byte(keytext.Specials) {
			a.text(loop, keytext.EscapeOf(s), loop)
		}
		a.skip(loop, to)
	}
}

// pair is a pair of states, and how they were reached.
type pair struct {
	a, b int
	via  *pair
	read string
}

func (p *pair) name() string {
	var read []string
	for ; p != nil; p = p.via {
		read = append(read, p.read)
	}
	slices.Reverse(read)
	return strings.Join(read, "")
}

func intersect(a, b *automaton) (name string, ok bool) {
	seen := map[[2]int]bool{{0, 0}: true}
	queue := []*pair{{}}
	visit := func(from *pair, x, y int, read string) {
		if state := [2]int{x, y}; !seen[state] {
			seen[state] = true
			queue = append(queue, &pair{x, y, from, read})
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if at.a == a.last && at.b == b.last {
			return at.name(), true
		}
		for _, x := range a.edges[at.a] {
			if x.none {
				visit(at, x.to, at.b, "")
				continue
			}
			for _, y := range b.edges[at.b] {
				if c, ok := common(x.bytes, y.bytes); ok && !y.none {
					visit(at, x.to, y.to, string([]byte{c}))
				}
			}
		}
		for _, y := range b.edges[at.b] {
			if y.none {
				visit(at, at.a, y.to, "")
			}
		}
	}
	return "", false
}
