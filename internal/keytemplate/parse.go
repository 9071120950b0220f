package keytemplate

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Parse reads a template: literal text, and parameters as {name}, {name type}, {name=source} or {name=source type}. A
// source is the name of a query's parameter or its number, as in $1. Literal text has no space and no braces.
//
// It refuses templates that could make the same name from different values: a parameter must be followed by the end,
// or by text that begins with a character which the parameter's own text cannot contain.
func Parse(text string) (Template, error) {
	var t Template
	for rest := text; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			open = len(rest)
		}
		if open > 0 {
			if err := checkLiteral(rest[:open]); err != nil {
				return Template{}, fmt.Errorf("%q: %w", text, err)
			}
			t.parts = append(t.parts, part{literal: rest[:open]})
		}
		if rest = rest[open:]; rest == "" {
			break
		}
		inside, after, closed := strings.Cut(rest[1:], "}")
		if !closed {
			return Template{}, fmt.Errorf("%q: a { has no }", text)
		}
		p, err := parseParam(inside)
		if err != nil {
			return Template{}, fmt.Errorf("%q: {%s}: %w", text, inside, err)
		}
		t.parts = append(t.parts, part{param: p})
		rest = after
	}
	if err := t.check(); err != nil {
		return Template{}, fmt.Errorf("%q: %w", text, err)
	}
	return t, nil
}

func checkLiteral(text string) error {
	if strings.Contains(text, "}") {
		return errors.New("a } has no {")
	}
	if !Visible(text) {
		return errors.New("it contains invisible characters")
	}
	return nil
}

// Visible reports whether the text is UTF-8 without control characters and others that cannot be seen.
func Visible(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) })
}

var (
	paramSyntax = regexp.MustCompile(`^\s*(\w+)\s*(?:=\s*(\$?\w+)\s*)?(?:\s(.*))?$`)
	identifier  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func parseParam(text string) (*Param, error) {
	match := paramSyntax.FindStringSubmatch(text)
	if match == nil || !identifier.MatchString(match[1]) {
		return nil, errors.New("want {name}, {name type}, {name=parameter} or {name=parameter type}")
	}
	p := &Param{Name: match[1], Source: match[1]}
	if match[2] != "" {
		p.Source = match[2]
		if _, isNumber := p.Number(); !isNumber && !identifier.MatchString(p.Source) {
			return nil, fmt.Errorf("%q is neither the name of a parameter nor a number such as $1", p.Source)
		}
	}
	typeName := strings.TrimSpace(match[3])
	if typeName == "" {
		return p, nil
	}
	typeName, p.Array = strings.CutSuffix(typeName, "[]")
	var err error
	p.Type, err = ParseType(typeName)
	return p, err
}

// Number returns the number of a source such as $1.
func (p *Param) Number() (n int, ok bool) {
	digits, dollar := strings.CutPrefix(p.Source, "$")
	n, err := strconv.Atoi(digits)
	return n, dollar && err == nil && n > 0
}

func (t Template) check() error {
	if len(t.parts) == 0 {
		return errors.New("the template is empty")
	}
	seen, arrays, literal := map[string]bool{}, 0, 0
	for i, p := range t.parts {
		literal += len(p.literal)
		if p.param == nil {
			continue
		}
		if seen[p.param.Name] {
			return fmt.Errorf("{%s} appears twice", p.param.Name)
		}
		seen[p.param.Name] = true
		if p.param.Array {
			arrays++
		}
		if i+1 < len(t.parts) {
			if err := p.param.checkEnd(t.parts[i+1]); err != nil {
				return err
			}
		}
	}
	if arrays > 1 {
		return errors.New("only one parameter can be an array")
	}
	if literal > pglock.MaxName {
		return fmt.Errorf("its literal text has %d bytes, and at most %d fit in a name", literal, pglock.MaxName)
	}
	return nil
}

// checkEnd checks that the end of the parameter can be recognized in a name.
func (p *Param) checkEnd(next part) error {
	if next.param != nil {
		return fmt.Errorf("{%s} and {%s} touch, so different values could make the same name: put a : between them",
			p.Name, next.param.Name)
	}
	if !p.Type.endsBefore(next.literal[0]) {
		return fmt.Errorf("{%s %s} can itself contain %q, so different values could make the same name: put a : after it",
			p.Name, p.Type, next.literal[:1])
	}
	return nil
}

// Check does the checks of [Parse], for a template with changed types.
func (t Template) Check() error { return t.check() }

// WithParams returns the template with other parameters.
func (t Template) WithParams(change func(Param) Param) Template {
	changed := Template{parts: make([]part, len(t.parts))}
	for i, p := range t.parts {
		if p.param != nil {
			param := change(*p.param)
			p.param = &param
		}
		changed.parts[i] = p
	}
	return changed
}
