// Command api prints the public API of the published packages, a line for each exported identifier, field and method, as
// the type checker sees them. Run it in the repository's root. docs/api.txt holds what it prints, so that a review shows
// each change.
package main

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run() error {
	adapters, err := filepath.Glob("pglock/adapter/*/go.mod") // modules of their own
	if err != nil {
		return err
	}
	patterns := []string{"./..."}
	for _, file := range adapters {
		patterns = append(patterns, "./"+filepath.ToSlash(filepath.Dir(file)))
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports |
		packages.NeedDeps | packages.NeedModule}, patterns...)
	if err != nil {
		return err
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return errors.Join(fmt.Errorf("load %s", p.PkgPath), p.Errors[0])
		}
		if p.Name != "main" && !strings.Contains(p.PkgPath+"/", "/internal/") {
			fmt.Print(api(p.Types))
		}
	}
	return nil
}

// api returns the lines of a package.
func api(p *types.Package) string {
	var b strings.Builder
	_, short, _ := strings.Cut(p.Path(), "/pglock-toolkit/pglock/")
	add := func(o types.Object) {
		if o.Exported() {
			fmt.Fprintf(&b, "%s: %s\n", short, types.ObjectString(o, types.RelativeTo(p)))
		}
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !o.Exported() || !isType || !ok {
			add(o)
			continue
		}
		fmt.Fprintf(&b, "%s: type %s\n", short, declaration(p, named))
		switch t := named.Underlying().(type) {
		case *types.Struct:
			for field := range t.Fields() {
				if field.Exported() {
					fmt.Fprintf(&b, "%s: field %s.%s %s\n", short, name, field.Name(), types.TypeString(field.Type(), types.RelativeTo(p)))
				}
			}
		case *types.Interface:
			for method := range t.Methods() {
				add(method)
			}
		}
		for method := range named.Methods() {
			add(method)
		}
	}
	return b.String()
}

// declaration names a type, and what it is unless that is a struct or an interface, whose members have lines of their own.
func declaration(p *types.Package, t *types.Named) string {
	name := types.TypeString(t, types.RelativeTo(p))
	switch t.Underlying().(type) {
	case *types.Struct:
		return name + " struct"
	case *types.Interface:
		return name + " interface"
	default:
		return name + " " + types.TypeString(t.Underlying(), types.RelativeTo(p))
	}
}
