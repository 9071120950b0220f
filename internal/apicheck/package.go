package main

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strings"
)

// packageAPI returns a line for each exported declaration, field and method of a package's files.
func packageAPI(path, dir string, files []string) ([]string, error) {
	p := apiPrinter{prefix: "pkg " + path + ", "}
	for _, name := range files {
		file, err := parser.ParseFile(&p.set, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			p.decl(decl)
		}
	}
	return p.lines, nil
}

type apiPrinter struct {
	prefix string
	set    token.FileSet
	lines  []string
}

func (p *apiPrinter) add(parts ...string) {
	p.lines = append(p.lines, p.prefix+strings.Join(parts, ""))
}

// text returns the source of a node on one line.
func (p *apiPrinter) text(node any) string {
	var b strings.Builder
	if err := printer.Fprint(&b, &p.set, node); err != nil {
		return "?" // a strings.Builder does not fail, and every node was parsed
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (p *apiPrinter) decl(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		p.function(d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				p.typeSpec(s)
			case *ast.ValueSpec:
				p.values(d.Tok.String(), s)
			}
		}
	}
}

func (p *apiPrinter) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	signature := strings.TrimPrefix(p.text(d.Type), "func")
	if d.Recv == nil {
		p.add("func ", d.Name.Name, signature)
		return
	}
	receiver := d.Recv.List[0].Type
	if ast.IsExported(baseName(receiver)) {
		p.add("method (", p.text(receiver), ") ", d.Name.Name, signature)
	}
}

func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func (p *apiPrinter) values(kind string, s *ast.ValueSpec) {
	for _, name := range s.Names {
		switch {
		case !name.IsExported():
		case s.Type != nil:
			p.add(kind, " ", name.Name, " ", p.text(s.Type))
		default:
			p.add(kind, " ", name.Name)
		}
	}
}

func (p *apiPrinter) typeSpec(s *ast.TypeSpec) {
	if !s.Name.IsExported() {
		return
	}
	name := "type " + s.Name.Name
	if s.TypeParams != nil {
		name += "[" + p.fieldTypes(s.TypeParams) + "]"
	}
	if s.Assign.IsValid() {
		name += " ="
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		p.add(name, " struct")
		p.fields(name+" struct, ", t.Fields)
	case *ast.InterfaceType:
		p.add(name, " interface")
		p.fields(name+" interface, ", t.Methods)
	default:
		p.add(name, " ", p.text(t))
	}
}

func (p *apiPrinter) fieldTypes(list *ast.FieldList) string {
	var all []string
	for _, field := range list.List {
		for _, name := range field.Names {
			all = append(all, name.Name+" "+p.text(field.Type))
		}
	}
	return strings.Join(all, ", ")
}

// fields lists exported fields and methods, and embedded types; an interface with unexported methods is marked, since
// other packages cannot implement it.
func (p *apiPrinter) fields(prefix string, list *ast.FieldList) {
	for _, field := range list.List {
		if len(field.Names) == 0 {
			if ast.IsExported(embeddedName(field.Type)) {
				p.add(prefix, "embedded ", p.text(field.Type))
			}
			continue
		}
		for _, name := range field.Names {
			_, method := field.Type.(*ast.FuncType)
			switch {
			case name.IsExported() && method:
				p.add(prefix, name.Name, strings.TrimPrefix(p.text(field.Type), "func"))
			case name.IsExported():
				p.add(prefix, name.Name, " ", p.text(field.Type))
			case strings.Contains(prefix, " interface, "):
				p.add(prefix, "unexported methods")
			}
		}
	}
}

func embeddedName(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return baseName(e)
}
