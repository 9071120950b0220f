// Package keytemplate implements the language of key templates, such as invoice:{id bigint}: how they are
// written in SQL comments, which names they make from values, and which of them could make the same name.
package keytemplate

import (
	"fmt"
	"strings"
)

// MaxName is the largest length of a name in bytes, that of the registry of names (pglock.names).
const MaxName = 1024

// Template is a pattern of names: literal text with parameters in between. The zero Template has no name.
type Template struct {
	parts []part
}

// part is either literal text or a parameter.
type part struct {
	literal string
	param   *Param
}

// Param is a parameter of a template.
type Param struct {
	Name   string // as in {id}
	Source string // the part after = in {id=invoice_id} and {id=$1}; Name if there is none
	Type   Type   // zero if none is given
	Array  bool   // a name for each element
}

// Params returns the parameters in the order of their appearance.
func (t Template) Params() (params []*Param) {
	for _, p := range t.parts {
		if p.param != nil {
			params = append(params, p.param)
		}
	}
	return params
}

// Pieces calls literal or param for each part in turn.
func (t Template) Pieces(literal func(string), param func(*Param)) {
	for _, p := range t.parts {
		if p.param != nil {
			param(p.param)
		} else {
			literal(p.literal)
		}
	}
}

// String returns the template without types, as in metrics: invoice:{id}. Two templates are the same if their
// Strings are.
func (t Template) String() string {
	return t.render(func(p *Param) string { return p.Name })
}

// Declaration returns the template with types: invoice:{id bigint}.
func (t Template) Declaration() string {
	return t.render(func(p *Param) string { return p.Name + " " + p.Type.String() })
}

// Use returns the template with types and the numbers of a query's parameters: invoice:{id=$2
// bigint}.
func (t Template) Use(number func(*Param) int) string {
	return t.render(func(p *Param) string {
		text := fmt.Sprintf("%s=$%d %s", p.Name, number(p), p.Type)
		if p.Array {
			text += "[]"
		}
		return text
	})
}

func (t Template) render(param func(*Param) string) string {
	var b strings.Builder
	t.Pieces(
		func(text string) { b.WriteString(text) },
		func(p *Param) { b.WriteString("{" + param(p) + "}") },
	)
	return b.String()
}

// Name returns the name for the values, one encoded value for each parameter.
func (t Template) Name(values []string) (string, error) {
	var b strings.Builder
	i := 0
	t.Pieces(
		func(text string) { b.WriteString(text) },
		func(*Param) { b.WriteString(values[i]); i++ },
	)
	if b.Len() > MaxName {
		return "", fmt.Errorf("the name of lock %s has %d bytes, and at most %d fit", t, b.Len(), MaxName)
	}
	return b.String(), nil
}

// Values returns the encoded values from which the template makes name; ok is false if there are none.
func (t Template) Values(name string) (values []string, ok bool) {
	if len(name) > MaxName {
		return nil, false
	}
	for _, p := range t.parts {
		n := len(p.literal)
		if p.param != nil {
			n = p.param.Type.scan(name)
			if n < 0 {
				return nil, false
			}
			values = append(values, name[:n])
		} else if !strings.HasPrefix(name, p.literal) {
			return nil, false
		}
		name = name[n:]
	}
	return values, name == ""
}
