package querylock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/keytext"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Type is the type of a parameter: how its values are written in names.
type Type uint8

// The types. There is no name with a parameter of the zero Type.
const (
	Int  Type = iota + 1 // bigint, integer or smallint
	Text                 // text
	UUID                 // uuid
	Bool                 // boolean
	Time                 // timestamptz
)

// Part is text, and the parameter that follows it. Only the last part of a template may have no parameter.
type Part struct {
	Text  string
	Param string // its name, as in {id}
	Type  Type
}

// Template is a pattern of names, such as tenant:{tenant}:invoice:{id}.
type Template []Part

// String returns the template as it is in metrics: invoice:{id}.
func (t Template) String() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.Text)
		if p.Param != "" {
			b.WriteString("{" + p.Param + "}")
		}
	}
	return b.String()
}

// params is the number of parameters.
func (t Template) params() int {
	if last := len(t) - 1; last >= 0 && t[last].Param == "" {
		return last
	}
	return len(t)
}

// Key returns the key of the template with these values of its parameters: int64, string, [16]byte, bool, time.Time, or
// whatever else sqlc has for their types. If the name has more than [pglock.MaxName] bytes, a value makes no name, or values
// are missing or too many, it is a key for which all functions that take one return [pglock.ErrInvalidKey] and the cause.
func (t Template) Key(values ...any) pglock.Key {
	if len(values) != t.params() || len(t) == 0 {
		return hooks.InvalidKey(fmt.Sprintf("lock %s has %d values for %d parameters", t, len(values), t.params())).(pglock.Key)
	}
	texts := make([]string, len(values))
	for i, value := range values {
		var err error
		if texts[i], err = encode(t[i].Type, value); err != nil {
			return hooks.InvalidKey(fmt.Sprintf("lock %s: {%s}: %v", t, t[i].Param, err)).(pglock.Key)
		}
	}
	name, err := t.name(texts)
	if err != nil {
		return hooks.InvalidKey(err.Error()).(pglock.Key)
	}
	return pglock.NewKey(name)
}

// name returns the name for the texts of the values, one for each parameter.
func (t Template) name(values []string) (string, error) {
	size := 0
	for i, p := range t {
		size += len(p.Text)
		if p.Param != "" {
			size += len(values[i])
		}
	}
	if size > pglock.MaxName {
		return "", fmt.Errorf("the name of lock %s has %d bytes, and at most %d fit", t, size, pglock.MaxName)
	}
	var b strings.Builder
	b.Grow(size)
	for i, p := range t {
		b.WriteString(p.Text)
		if p.Param != "" {
			b.WriteString(values[i])
		}
	}
	return b.String(), nil
}

// values returns the texts of the values from which the template makes name; ok is false if there are none.
func (t Template) values(name string) (values []string, ok bool) {
	if len(name) > pglock.MaxName {
		return nil, false
	}
	for _, p := range t {
		if name, ok = strings.CutPrefix(name, p.Text); !ok {
			return nil, false
		}
		if p.Param == "" {
			continue
		}
		n := p.Type.scan(name)
		if n < 0 {
			return nil, false
		}
		values, name = append(values, name[:n]), name[n:]
	}
	return values, name == ""
}

// scan returns the length of the value that text begins with, or -1.
func (t Type) scan(text string) int {
	switch t {
	case Int, Time:
		return keytext.ScanInt(text)
	case Text:
		return keytext.ScanText(text)
	case UUID:
		return keytext.ScanUUID(text)
	case Bool:
		return keytext.ScanBool(text)
	}
	return -1
}

// check finds what no generator writes.
func (t Template) check() error {
	if len(t) == 0 {
		return errors.New("a template is empty")
	}
	for i, p := range t {
		switch {
		case p.Text == "" && (i > 0 || p.Param == ""):
			return fmt.Errorf("template %s: part %d has no text", t, i+1)
		case p.Param == "" && i < len(t)-1:
			return fmt.Errorf("template %s: part %d has no parameter", t, i+1)
		case p.Param == "" && p.Type != 0, p.Param != "" && (p.Type == 0 || p.Type > Time):
			return fmt.Errorf("template %s: {%s} has type %d, which this version of pglock does not know", t, p.Param, p.Type)
		}
	}
	return nil
}
