package keytemplate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Parse reads the template of a key: text without spaces and braces, and parameters as {name type}.
//
// It refuses templates that could make the same name from different values: a parameter must be followed by the end,
// or by text that begins with a character which the parameter's own text cannot contain.
func Parse(text string) (Template, error) {
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	for i, p := range t {
		switch {
		case p.Param == "":
		case p.Source != p.Param:
			err = fmt.Errorf("{%s=%s}: a key declares its own parameters: {%[1]s bigint}; = is for locks", p.Param, p.Source)
		case p.Type == 0:
			err = fmt.Errorf("{%s} has no type: write {%[1]s bigint}", p.Param)
		case i+1 < len(t) && !p.Type.endsBefore(t[i+1].Text[0]):
			err = fmt.Errorf("{%s %s} can itself contain %q, so different values could make the same name: put a : after it",
				p.Param, p.Type, t[i+1].Text[:1])
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
	}
	return t, nil
}

// parse reads the template of a key or of a lock.
func parse(text string) (t Template, err error) {
	for rest := text; rest != ""; {
		var p Part
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			open = len(rest)
		}
		p.Text, rest = rest[:open], rest[open:]
		switch {
		case strings.Contains(p.Text, "}"):
			return nil, errors.New("a } has no {")
		case !Visible(p.Text):
			return nil, errors.New("it contains invisible characters")
		case rest != "":
			inside, after, closed := strings.Cut(rest[1:], "}")
			if !closed {
				return nil, errors.New("a { has no }")
			}
			if err := p.parse(inside); err != nil {
				return nil, fmt.Errorf("{%s}: %w", inside, err)
			}
			rest = after
		}
		t = append(t, p)
	}
	return t, t.check()
}

// Visible reports whether the text is UTF-8 without control characters and others that cannot be seen.
func Visible(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// paramSyntax is a parameter of a key, or of a lock.
var paramSyntax = regexp.MustCompile(`^\s*([A-Za-z_]\w*)(?:\s*=\s*(\$[1-9][0-9]*|[A-Za-z_]\w*)(\[\])?|\s+(\S.*?))?\s*$`)

func (p *Part) parse(text string) (err error) {
	match := paramSyntax.FindStringSubmatch(text)
	if match == nil {
		return errors.New("want {name type} in a key, and {name}, {name=parameter} or {name=$1} in a lock")
	}
	p.Param, p.Source, p.Array = match[1], match[1], match[3] != ""
	if match[2] != "" {
		p.Source = match[2]
	}
	if match[4] != "" {
		p.Type, err = ParseType(match[4])
	}
	return err
}

func (t Template) check() error {
	if len(t) == 0 {
		return errors.New("the template is empty")
	}
	seen, arrays, size := map[string]bool{}, 0, 0
	for i, p := range t {
		size += len(p.Text)
		switch {
		case p.Param != "" && seen[p.Param]:
			return fmt.Errorf("{%s} appears twice", p.Param)
		case i > 0 && p.Text == "":
			return fmt.Errorf("{%s} and {%s} touch, so different values could make the same name: put a : between them",
				t[i-1].Param, p.Param)
		case p.Array:
			arrays++
		}
		seen[p.Param] = true
	}
	if size > pglock.MaxName {
		return fmt.Errorf("its text has %d bytes, and at most %d fit in a name", size, pglock.MaxName)
	}
	if arrays > 1 {
		return errors.New("only one parameter can be an array")
	}
	return nil
}

// CutTemplate cuts the text after the template, at the first space outside braces.
func CutTemplate(text string) (template, rest string) {
	text = strings.TrimSpace(text)
	inside := false
	for i, r := range text {
		switch {
		case r == '{':
			inside = true
		case r == '}':
			inside = false
		case !inside && (r == ' ' || r == '\t'):
			return text[:i], strings.TrimSpace(text[i:])
		}
	}
	return text, ""
}
