package lockgen

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// A misspelled name is another lock, which excludes none of the others. So a lock that no key line declares is refused if its name is
// near that of another.

// outline is what names of a template are compared by: the text, with a mark for each parameter and each number.
type outline struct {
	text    string // in lower case, without accents that are characters of their own
	written string // as it is
	params  int
	letters int
	has     uint64 // a bit for each letter
}

const paramMark, numberMark = '\x01', '\x02'

func outlineOf(t keytemplate.Template) outline {
	var o outline
	var b strings.Builder
	number := false
	t.Pieces(func(text string) {
		for _, r := range text {
			switch digit := unicode.IsDigit(r); {
			case digit && number:
				continue
			case digit:
				r = numberMark
			case unicode.IsLetter(r):
				o.letters++
			}
			number = r == numberMark
			if !unicode.Is(unicode.Mn, r) {
				o.has |= 1 << (uint(unicode.ToLower(r)) % 64)
			}
			b.WriteRune(r)
		}
	}, func(*keytemplate.Param) {
		o.params++
		number = false
		b.WriteRune(paramMark)
	})
	o.written = b.String()
	o.text = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, o.written)
	return o
}

// Bounds of what is near: so many letters differ, of names with at least so many.
const (
	leastLetters            = 3 // of which two are swapped
	fewLetters, nearOfFew   = 4, 1
	manyLetters, nearOfMany = 9, 2
)

// near reports whether one of the outlines is likely a misspelling of the other. Names that differ in their numbers alone
// are a series, and two letters that differ at the beginning are another word, such as import and export.
func (o outline) near(other outline) bool {
	most := 0
	switch letters := min(o.letters, other.letters); {
	case letters >= manyLetters && o.text[0] == other.text[0]:
		most = nearOfMany
	case letters >= fewLetters, letters == leastLetters && o.has == other.has && o.letters == other.letters:
		most = nearOfFew
	}
	if most == 0 || o.params != other.params || o.written == other.written || bits.OnesCount64(o.has^other.has) > 2*most {
		return false
	}
	return editDistance(o.text, other.text) <= most
}

// checkDeclared refuses locks that no key line declares, where the options demand one, or whose name is near another's.
func (p *project) checkDeclared() {
	outlines := make([]outline, len(p.keys))
	for i, k := range p.keys {
		outlines[i] = outlineOf(k.template)
	}
	for i, k := range p.keys {
		if k.declared {
			continue
		}
		other := p.nearest(i, outlines)
		switch {
		case other != nil:
			p.addNear(k.at, k.template, other)
		case p.RequireKeys:
			p.problems.add(k.at, "lock %s is not declared, which require_keys demands: write -- pglock: key %s", k.template, k.template.Declaration())
		}
	}
}

func (p *project) addNear(at Position, template keytemplate.Template, other *key) {
	p.problems.add(at, "lock %s is near %s%s (at %s): if it is misspelled, correct it, since it would be another lock; "+
		"if it is meant, declare %s: -- pglock: key %s",
		template, other.template, spelledOut(template.String(), other.template.String()), other.at, which(other), template.Declaration())
}

// spelledOut returns both names with the numbers of their letters, if they may look the same.
func spelledOut(one, other string) string {
	foreign := func(r rune) bool { return r > unicode.MaxASCII }
	accent := func(r rune) bool { return unicode.Is(unicode.Mn, r) }
	if strings.ContainsFunc(one, foreign) == strings.ContainsFunc(other, foreign) && !strings.ContainsFunc(one+other, accent) {
		return ""
	}
	return fmt.Sprintf(", which looks like it: %+q and %+q", one, other)
}

// checkUntyped refuses a lock whose types only a key line can tell, if there is none for it and one for a name that is
// near: the advice to declare it would make a second lock.
func (p *project) checkUntyped(u use) bool {
	if !u.query.Untyped || p.byText[u.lock.Template.String()] != nil {
		return true
	}
	outline := outlineOf(u.lock.Template)
	for _, k := range p.keys {
		if k.declared && outline.near(outlineOf(k.template)) {
			p.addNear(u.at, withTypesOf(u.lock.Template, k.template), k)
			return false
		}
	}
	return true
}

// withTypesOf gives a template that has no types those of another with as many parameters.
func withTypesOf(template, typed keytemplate.Template) keytemplate.Template {
	types := typed.Params()
	return template.WithParams(func(param keytemplate.Param) keytemplate.Param {
		if param.Type == keytemplate.Unknown {
			param.Type = types[0].Type
		}
		types = types[1:]
		return param
	})
}

func which(other *key) string {
	if other.declared {
		return "it"
	}
	return "both"
}

// nearest returns the key whose name is near that of key i, a declared one if there is any, or nil. Of two that are not
// declared the first is meant to be right.
func (p *project) nearest(i int, outlines []outline) (found *key) {
	for j, other := range p.keys {
		if j == i || (!other.declared && j > i) || (found != nil && found.declared) {
			continue
		}
		if (found == nil || other.declared) && outlines[i].near(outlines[j]) {
			found = other
		}
	}
	return found
}
