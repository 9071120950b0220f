package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// prepare makes one commit in which every module requires our others in the given version, published ones with their hashes.
// It goes from required modules to those that require them: a hash needs the files of the module alone, and these are
// complete once the hashes of what it requires are in its go.sum. Each of those steps amends the commit. Modules that are
// not published replace our others by folders, and need no hashes.
func (r *repository) prepare(ctx context.Context, version string) error {
	if changed, err := r.git(ctx, "status", "--porcelain"); err != nil || changed != "" {
		return errors.Join(err, fmt.Errorf("commit or remove these changes first:\n%s", changed))
	}
	if err := r.checkUntagged(ctx, version); err != nil {
		return err
	}
	if _, err := r.git(ctx, "commit", "--quiet", "--allow-empty", "--message", "Release "+version); err != nil {
		return err
	}
	hashes := map[string][]string{}
	for _, m := range r.modules {
		if err := r.require(m, version, hashes); err != nil {
			return err
		}
		if _, err := r.git(ctx, "commit", "--quiet", "--all", "--amend", "--no-edit", "--allow-empty"); err != nil {
			return err
		}
		if !m.published {
			continue
		}
		lines, err := r.hash(m, version)
		if err != nil {
			return err
		}
		hashes[m.path] = lines
	}
	return nil
}

// checkUntagged fails if a module has a tag for the version already.
func (r *repository) checkUntagged(ctx context.Context, version string) error {
	args := []string{"tag", "--list"}
	for _, m := range r.published() {
		args = append(args, m.tagOf(version))
	}
	tags, err := r.git(ctx, args...)
	if err == nil && tags != "" {
		err = fmt.Errorf("this version has been released: there are tags\n%s", tags)
	}
	return err
}

// require lets a module require the version of our others, a published one with these lines of go.sum.
func (r *repository) require(m *mod, version string, hashes map[string][]string) error {
	f, err := r.parse(path.Join(m.dir, "go.mod"))
	if err != nil {
		return err
	}
	var lines []string
	for _, path := range m.needs {
		if err := f.AddRequire(path, version); err != nil {
			return err
		}
		lines = append(lines, hashes[path]...)
	}
	err = os.WriteFile(filepath.Join(r.folder(m), "go.mod"), modfile.Format(f.Syntax), 0o644)
	if err != nil || !m.published {
		return err
	}
	_, others, err := r.readSums(filepath.Join(r.folder(m), "go.sum"))
	if err != nil {
		return err
	}
	return writeSums(filepath.Join(r.folder(m), "go.sum"), append(others, lines...))
}

// hash returns the lines of go.sum that name a module of the last commit.
func (r *repository) hash(m *mod, version string) ([]string, error) {
	file, err := os.CreateTemp("", "pglock-*.zip")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	if err := errors.Join(r.zip(file, m, version, "HEAD"), file.Close()); err != nil {
		return nil, err
	}
	all, err := dirhash.HashZip(file.Name(), dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	alone, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(r.folder(m), "go.mod"))
	})
	return []string{m.path + " " + version + " " + all, m.path + " " + version + "/go.mod " + alone}, err
}

// zip writes what a module consists of in a revision.
func (r *repository) zip(to *os.File, m *mod, version, revision string) error {
	return zip.CreateFromVCS(to, module.Version{Path: m.path, Version: version}, r.root, revision, m.dir)
}

// tag tags the last commit, which prepare made, for each published module, required ones first. It pushes nothing.
func (r *repository) tag(ctx context.Context, version string) error {
	subject, err := r.git(ctx, "log", "-1", "--format=%s")
	if err != nil || strings.TrimSpace(subject) != "Release "+version {
		return errors.Join(err, fmt.Errorf("the last commit is %q: run release prepare %s first", strings.TrimSpace(subject), version))
	}
	for _, m := range r.published() {
		if _, err := r.git(ctx, "tag", "--annotate", "--message", m.path+" "+version, m.tagOf(version)); err != nil {
			return err
		}
		fmt.Println(m.tagOf(version))
	}
	return nil
}
