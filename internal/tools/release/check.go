package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func (r *repository) check(ctx context.Context) error {
	return errors.Join(r.checkReplaces(), r.tidy(ctx, "-diff"), r.checkLicences(), r.checkImports(ctx))
}

// checkReplaces checks that no published module has a replace directive, which the go command would ignore in the modules of
// others.
func (r *repository) checkReplaces() error {
	var all []error
	for _, m := range r.published() {
		f, err := r.parse(path.Join(m.dir, "go.mod"))
		if err == nil && len(f.Replace) > 0 {
			err = fmt.Errorf("%s replaces %s: programs would not", path.Join(m.dir, "go.mod"), f.Replace[0].Old.Path)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// checkLicences checks that every published module carries the LICENSE. The go command adds the root's to the zip of a
// module without one, other tools do not, and then hashes differ.
func (r *repository) checkLicences() error {
	var all []error
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	all = append(all, err)
	for _, m := range r.published() {
		own, err := os.ReadFile(filepath.Join(r.folder(m), "LICENSE"))
		if err == nil && string(own) != string(licence) {
			err = fmt.Errorf("%s differs from LICENSE", filepath.Join(m.dir, "LICENSE"))
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// command is the folder of the command's module. It may use the root's internal packages, since its releases require
// the same version of the root.
const command = "cmd/pglock"

// checkImports checks that a published module imports no internal package of another one, since programs may mix their
// versions. It also checks that the root requires none of the others. Tests are exempt.
func (r *repository) checkImports(ctx context.Context) error {
	var all []error
	for _, m := range r.published() {
		if m.dir == "" && len(m.needs) > 0 {
			all = append(all, fmt.Errorf("the root's module requires %s", strings.Join(m.needs, ", ")))
		}
		if m.dir == "" || m.dir == command {
			continue
		}
		const format = `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}`
		lines, err := output(ctx, r.folder(m), nil, "go", "list", "-f", format, "./...")
		all = append(all, err)
		for line := range strings.Lines(lines) {
			from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(to, r.path+"/") && !strings.HasPrefix(to, m.path+"/") && isInternal(to) {
				all = append(all, fmt.Errorf("%s imports %s: versions of the two modules may be mixed", from, to))
			}
		}
	}
	return errors.Join(all...)
}

func isInternal(path string) bool { return strings.Contains(path+"/", "/internal/") }
