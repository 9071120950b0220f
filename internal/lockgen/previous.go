package lockgen

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A key that is removed or renamed is dangerous while processes run that take the old one: they and the new ones do not
// exclude each other. The generator sees that when it replaces a package, and refuses it once.

// previousKey is a key of the package that is replaced: for each part of its template the text, and the parameter's name
// and type in package querylock.
type previousKey []previousPart

type previousPart struct{ text, param, kind string }

// String returns the template, such as invoice:{id}.
func (k previousKey) String() string {
	var b strings.Builder
	for _, p := range k {
		b.WriteString(p.text)
		if p.param != "" {
			b.WriteString("{" + p.param + "}")
		}
	}
	return b.String()
}

// readPrevious returns the keys in generated code; none if it is other code, or broken.
func readPrevious(code []byte) (keys []previousKey) {
	file, err := parser.ParseFile(token.NewFileSet(), "", code, parser.ParseComments)
	if err != nil || !ast.IsGenerated(file) {
		return nil
	}
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || len(value.Values) != 1 {
				continue
			}
			if template, ok := value.Values[0].(*ast.CompositeLit); ok && selected(template.Type) == "Template" {
				keys = append(keys, readTemplate(template))
			}
		}
	}
	return keys
}

// readTemplate reads a querylock.Template as templateGo writes it.
func readTemplate(template *ast.CompositeLit) (k previousKey) {
	for _, element := range template.Elts {
		var part previousPart
		if fields, ok := element.(*ast.CompositeLit); ok {
			for _, field := range fields.Elts {
				part.read(field)
			}
		}
		k = append(k, part)
	}
	return k
}

func (p *previousPart) read(field ast.Expr) {
	pair, ok := field.(*ast.KeyValueExpr)
	if !ok {
		return
	}
	name, _ := pair.Key.(*ast.Ident)
	text := ""
	if literal, ok := pair.Value.(*ast.BasicLit); ok {
		text, _ = strconv.Unquote(literal.Value)
	}
	switch name.Name {
	case "Text":
		p.text = text
	case "Param":
		p.param = text
	case "Type":
		p.kind = selected(pair.Value)
	}
}

// selected returns the name after the dot.
func selected(e ast.Expr) string {
	if selector, ok := e.(*ast.SelectorExpr); ok {
		return selector.Sel.Name
	}
	return ""
}

// covers reports whether k makes the names that old made, whatever the names of their parameters: the same texts, and
// values of the same type or any text.
func (k previousKey) covers(old previousKey) bool {
	return slices.EqualFunc(k, old, func(a, b previousPart) bool {
		return a.text == b.text && (a.kind == b.kind || (a.kind == "Text" && b.kind != ""))
	})
}

// checkPrevious refuses to replace a package that has keys which are gone.
func (p *project) checkPrevious(file File) {
	old := readPrevious(file.Contents)
	if len(old) == 0 || len(p.problems) > 0 { // a key may be missing because its line is wrong
		return
	}
	now := readPrevious([]byte(p.queriesGo()))
	in := func(keys []previousKey, key previousKey, covers func(a, b previousKey) bool) bool {
		return slices.ContainsFunc(keys, func(k previousKey) bool { return covers(k, key) })
	}
	var added []string
	for _, key := range now {
		if !in(old, key, func(a, b previousKey) bool { return b.covers(a) }) {
			added = append(added, key.String())
		}
	}
	for _, key := range old {
		if in(now, key, previousKey.covers) {
			continue
		}
		instead := ""
		if len(added) > 0 {
			instead = " (new are " + strings.Join(added, ", ") + ")"
		}
		p.problems.add(Position{File: file.Name}, "the package has a key %s, which the SQL has no more%s: processes that take it and "+
			"new ones would not exclude each other. Keep it for one release, together with a new one, or if no process takes it, "+
			"delete this file and generate again", key, instead)
	}
}
