// Package keytemplate implements the language of key templates, such as invoice:{id bigint}: how they are
// written in SQL comments, and which of them could make the same name. Only the generator uses it: what it has read, it
// writes as Go values of package querylock.
package keytemplate

import "strings"

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

func (t Template) render(param func(*Param) string) string {
	var b strings.Builder
	t.Pieces(
		func(text string) { b.WriteString(text) },
		func(p *Param) { b.WriteString("{" + param(p) + "}") },
	)
	return b.String()
}
