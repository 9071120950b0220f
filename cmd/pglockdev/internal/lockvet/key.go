package lockvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Key reports handmade keys in packages that import generated keys: raw numbers, and names for which there is a
// generated function.
var Key = &analysis.Analyzer{
	Name:      "pglockkey",
	Doc:       "find keys that are made by hand though the project generates its keys",
	Run:       runKey,
	FactTypes: []analysis.Fact{new(templates)},
}

// templates is the fact that a package has generated keys: the prefixes of their names, and whether a prefix is the whole
// name.
type templates struct {
	Prefixes []string
	Whole    []bool
}

func (*templates) AFact()           {}
func (f *templates) String() string { return "keys " + strings.Join(f.Prefixes, " ") }

func runKey(pass *analysis.Pass) (any, error) {
	if imports(pass, querylock) {
		exportTemplates(pass)
	}
	var known []templates
	packages := ""
	for _, imported := range pass.Pkg.Imports() {
		var fact templates
		if pass.ImportPackageFact(imported, &fact) {
			known = append(known, fact)
			packages = imported.Name()
		}
	}
	if len(known) == 0 {
		return nil, nil
	}
	calls(pass, func(call *ast.CallExpr) {
		f := callee(pass, call)
		switch {
		case isFunc(f, pglock, "Int64Key", "PairKey"):
			pass.Reportf(call.Pos(), "%s makes a key of a bare number, though package %s has the project's keys: declare it "+
				"in SQL, with -- pglock: key name:{id bigint}", f.Name(), packages)
		case isFunc(f, pglock, "NewKey") && len(call.Args) == 1:
			for _, fact := range known {
				if prefix, ok := fact.match(pass, call.Args[0]); ok {
					pass.Reportf(call.Pos(), "NewKey makes a name by hand that begins with %q, as those of a key in package %s "+
						"do: call its function, which encodes the parameters", prefix, packages)
					return
				}
			}
		}
	})
	return nil, nil
}

// match reports whether the value of an expression may be a name of one of the templates.
func (f templates) match(pass *analysis.Pass, e ast.Expr) (prefix string, ok bool) {
	text, whole := beginning(pass, e)
	for i, prefix := range f.Prefixes {
		switch {
		case prefix == "":
		case f.Whole[i] && whole && text == prefix:
			return prefix, true
		case !f.Whole[i] && strings.HasPrefix(text, prefix):
			return prefix, true
		}
	}
	return "", false
}

// beginning returns the constant prefix of an expression's value, and whether it is the whole value.
func beginning(pass *analysis.Pass, e ast.Expr) (text string, whole bool) {
	e = ast.Unparen(e)
	if value := pass.TypesInfo.Types[e].Value; value != nil && value.Kind() == constant.String {
		return constant.StringVal(value), true
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			text, _ := beginning(pass, e.X)
			return text, false
		}
	case *ast.CallExpr:
		if f := callee(pass, e); isFunc(f, "fmt", "Sprintf", "Sprint") && len(e.Args) > 0 {
			text, _ := beginning(pass, e.Args[0])
			text, _, _ = strings.Cut(text, "%")
			return text, false
		}
	}
	return "", false
}

// exportTemplates exports the templates of a package that calls querylock.NewSet, as generated packages do.
func exportTemplates(pass *analysis.Pass) {
	var fact templates
	isGenerated := false
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				isGenerated = isGenerated || isFunc(callee(pass, n), querylock, "NewSet")
			case *ast.CompositeLit:
				if path, name := named(pass.TypesInfo.TypeOf(n)); path == querylock && name == "Template" {
					fact.add(pass, n)
				}
			}
			return true
		})
	}
	if isGenerated {
		pass.ExportPackageFact(&fact)
	}
}

// add adds a template, whose first part has the text that all its names begin with.
func (f *templates) add(pass *analysis.Pass, template *ast.CompositeLit) {
	if len(template.Elts) == 0 {
		return
	}
	first, ok := template.Elts[0].(*ast.CompositeLit)
	if !ok {
		return
	}
	prefix, whole := "", len(template.Elts) == 1
	for _, element := range first.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		switch name, _ := field.Key.(*ast.Ident); name.Name {
		case "Text":
			prefix, _ = beginning(pass, field.Value)
		case "Param":
			whole = false
		}
	}
	f.Prefixes, f.Whole = append(f.Prefixes, prefix), append(f.Whole, whole)
}
