package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const pgx = "github.com/jackc/pgx/v5"

// light are the packages that all users import. They may reach the standard library, pgx and what pgx itself needs.
var light = []string{"pglock", "monitor"}

// gates are the modules that only the named packages, and those below them, may import.
var gates = map[string][]string{
	"github.com/redis/go-redis":         {"redisfallback", "cmd"}, // the command silences its log
	"github.com/golang-migrate/migrate": {"migrations", "cmd"},
}

// ourPackage is one of the library's own packages, by its path below the module.
type ourPackage struct {
	path    string
	imports []string
	deps    []string
}

// checkImports checks what the packages import, except for their tests.
func checkImports(lib library) error {
	packages, err := packagesOf(lib)
	if err != nil {
		return err
	}
	allowed, err := goLines(lib.dir, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pgx+"/...")
	if err != nil {
		return err
	}
	standard, err := goLines(lib.dir, "list", "std")
	if err != nil {
		return err
	}
	return errors.Join(checkLight(lib, packages, slices.Concat(allowed, standard)), checkGates(packages))
}

func packagesOf(lib library) (packages []ourPackage, err error) {
	const format = `{{.ImportPath}};{{join .Imports " "}};{{join .Deps " "}}`
	lines, err := goLines(lib.dir, "list", "-f", format, "./...")
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		parts := strings.Split(line, ";")
		packages = append(packages, ourPackage{
			path:    strings.TrimPrefix(strings.TrimPrefix(parts[0], lib.path), "/"),
			imports: strings.Fields(parts[1]),
			deps:    strings.Fields(parts[2]),
		})
	}
	return packages, nil
}

func checkLight(lib library, packages []ourPackage, allowed []string) (err error) {
	for _, p := range packages {
		if !within(p.path, light) {
			continue
		}
		for _, dep := range p.deps {
			if !strings.HasPrefix(dep, lib.path+"/") && !slices.Contains(allowed, dep) {
				err = errors.Join(err, fmt.Errorf("package %s may reach only pgx, what pgx needs, "+
					"and the standard library, but reaches %s", p.path, dep))
			}
		}
	}
	return err
}

func checkGates(packages []ourPackage) (err error) {
	for _, p := range packages {
		for _, imported := range p.imports {
			for module, importers := range gates {
				if strings.HasPrefix(imported, module+"/") && !within(p.path, importers) {
					err = errors.Join(err, fmt.Errorf("package %s may not import %s: only %s may",
						p.path, imported, strings.Join(importers, " and ")))
				}
			}
		}
	}
	return err
}

// within reports whether a package is one of the parents or below one.
func within(path string, parents []string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool {
		return path == parent || strings.HasPrefix(path, parent+"/")
	})
}
