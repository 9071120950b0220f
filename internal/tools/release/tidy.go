package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tidy runs go mod tidy in each module. A published module finds those that it requires in this checkout for that time:
// in a copy of its go.mod, which has replace directives.
func (r *repository) tidy(ctx context.Context, flags ...string) error {
	temporary, err := os.MkdirTemp("", "pglock-tidy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	var all []error
	for _, m := range r.modules {
		if err := r.tidyOne(ctx, m, filepath.Join(temporary, "x.mod"), flags); err != nil {
			all = append(all, fmt.Errorf("%s: %w", filepath.Join(m.dir, "go.mod"), err))
		}
	}
	return errors.Join(all...)
}

func (r *repository) tidyOne(ctx context.Context, m *mod, copied string, flags []string) error {
	file := filepath.Join(r.folder(m), "go.mod")
	sums, copiedSums := filepath.Join(r.folder(m), "go.sum"), strings.TrimSuffix(copied, ".mod")+".sum"
	if err := errors.Join(copyFile(copied, file), copyFile(copiedSums, sums)); err != nil {
		return err
	}
	if m.published {
		for _, path := range m.needs {
			if _, err := r.goIn(ctx, m, "mod", "edit", "-replace", path+"="+r.folder(r.module(path)), copied); err != nil {
				return err
			}
		}
	}
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
	return errors.Join(copyFile(file, copied), copyFile(sums, copiedSums))
}

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
	if old, err := os.ReadFile(to); err == nil && string(old) == string(content) {
		return nil
	}
	return os.WriteFile(to, content, 0o644)
}
