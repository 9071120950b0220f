// Package keytemplate implements the language of keys with parameters, such as invoice:{id bigint}, and of the locks that
// queries take, such as invoice:{id=$1} shared. The generator reads both in comments of SQL, and generated packages pass
// them to package querylock.
package keytemplate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Template is a pattern of names.
type Template []Part

// Part is text, and the parameter that follows it. Only the last part of a template may have no parameter, and only the
// first no text.
type Part struct {
	Text  string
	Param string // its name, as in {id}
	Type  Type   // in the template of a key

	// In the template of a lock.
	Source string // what is after =, as in {id=invoice_id} and {id=$1}; Param if there is none
	Array  bool   // as in {id=$1[]}: a lock for each element
}

// Number returns the number of a source such as $1.
func (p Part) Number() (n int, ok bool) {
	digits, dollar := strings.CutPrefix(p.Source, "$")
	n, err := strconv.Atoi(digits)
	return n, dollar && err == nil && n > 0
}

// Params returns the parts that have a parameter.
func (t Template) Params() []Part {
	if last := len(t) - 1; last >= 0 && t[last].Param == "" {
		return t[:last]
	}
	return t
}

// String returns the template without types, as in metrics: invoice:{id}. Two templates are the same if their
// Strings are.
func (t Template) String() string {
	return t.render(func(p Part) string { return p.Param })
}

// Declaration returns the template of a key as [Parse] reads it: invoice:{id bigint}.
func (t Template) Declaration() string {
	return t.render(func(p Part) string { return p.Param + " " + p.Type.String() })
}

func (t Template) render(param func(Part) string) string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.Text)
		if p.Param != "" {
			b.WriteString("{" + param(p) + "}")
		}
	}
	return b.String()
}

// Name returns the name for the texts of the values, one for each parameter.
func (t Template) Name(values []string) (string, error) {
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

// Names matches the names that the template of a key makes. It captures the texts of the values.
func (t Template) Names() *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	for _, p := range t {
		b.WriteString(regexp.QuoteMeta(p.Text))
		if p.Param != "" {
			b.WriteString("(" + p.Type.pattern() + ")")
		}
	}
	b.WriteString("$")
	return regexp.MustCompile(b.String())
}
