package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tidy runs go mod tidy in each module.
func (r *repository) tidy(ctx context.Context, flags ...string) error {
	var all []error
	for _, m := range r.modules {
		err := r.withCopy(ctx, m, func(copied string) error { return r.tidyOne(ctx, m, copied, flags) })
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", filepath.Join(m.dir, "go.mod"), err))
		}
	}
	return errors.Join(all...)
}

func (r *repository) tidyOne(ctx context.Context, m *mod, copied string, flags []string) error {
	args := append([]string{"mod", "tidy", "-modfile=" + copied}, flags...)
	if _, err := r.goIn(ctx, m, args...); err != nil {
		return fmt.Errorf("not tidy, or not to be had: %w", err)
	}
	if m.published {
		for _, path := range m.needs {
			if _, err := r.goIn(ctx, m, "mod", "edit", "-dropreplace", path, copied); err != nil {
				return err
			}
		}
	}
	sums := filepath.Join(r.folder(m), "go.sum")
	ours, _, err := r.readSums(sums)
	if err != nil {
		return err
	}
	_, others, err := r.readSums(sumsOf(copied))
	if err != nil {
		return err
	}
	return errors.Join(copyFile(filepath.Join(r.folder(m), "go.mod"), copied), writeSums(sums, append(ours, others...)))
}

// download fetches what a program that requires the published modules needs, tests of their dependencies included, of which
// go mod tidy asks. The versions are those that each module has without go.work, which can raise them.
func (r *repository) download(ctx context.Context) error {
	for _, m := range r.published() {
		err := r.withCopy(ctx, m, func(copied string) error {
			_, err := r.goIn(ctx, m, "mod", "tidy", "-modfile="+copied)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withCopy calls use with a copy of a module's go.mod, beside one of its go.sum. In that of a published module replace
// directives lead to those that it requires in this checkout, so their hashes are left out.
func (r *repository) withCopy(ctx context.Context, m *mod, use func(copied string) error) error {
	temporary, err := os.MkdirTemp("", "pglock-module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	copied := filepath.Join(temporary, "x.mod")
	_, others, err := r.readSums(filepath.Join(r.folder(m), "go.sum"))
	if err != nil {
		return err
	}
	if err := errors.Join(copyFile(copied, filepath.Join(r.folder(m), "go.mod")), writeSums(sumsOf(copied), others)); err != nil {
		return err
	}
	if m.published {
		for _, path := range m.needs {
			if _, err := r.goIn(ctx, m, "mod", "edit", "-replace", path+"="+r.folder(r.module(path)), copied); err != nil {
				return err
			}
		}
	}
	return use(copied)
}

// sumsOf returns the file of hashes that the go command uses with a go.mod of another name.
func sumsOf(goMod string) string { return strings.TrimSuffix(goMod, ".mod") + ".sum" }

func (r *repository) module(path string) *mod {
	for _, m := range r.modules {
		if m.path == path {
			return m
		}
	}
	return nil
}

// goIn runs the go command for one module alone.
func (r *repository) goIn(ctx context.Context, m *mod, args ...string) (string, error) {
	return output(ctx, r.folder(m), []string{"GOWORK=off"}, "go", args...)
}

// copyFile copies a file, unless both have the same content.
func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, string(content))
}
