package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// repository is a checkout with all its modules, those that others require before those that require them.
type repository struct {
	root    string
	path    string // of the module in the root
	modules []*mod
}

// mod is a module of the repository.
type mod struct {
	dir       string // below the root, "" for the root
	path      string
	published bool
	needs     []string // paths of our own modules that it requires
}

// open reads the go.mod files that git knows in root or may come to know.
func open(ctx context.Context, root string) (*repository, error) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	repo := &repository{root: absolute}
	files, err := repo.git(ctx, "ls-files", "--cached", "--others", "--exclude-standard", "--", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	for file := range strings.Lines(files) {
		m, err := repo.read(strings.TrimSpace(file))
		if err != nil {
			return nil, err
		}
		repo.modules = append(repo.modules, m)
	}
	if repo.path == "" {
		return nil, errors.New("there is no go.mod in the current directory: run this in the repository's root")
	}
	return repo, repo.sort()
}

func (r *repository) read(file string) (*mod, error) {
	f, err := r.parse(file)
	if err != nil {
		return nil, err
	}
	m := &mod{dir: strings.TrimSuffix(path.Dir(file), "."), path: f.Module.Mod.Path}
	if m.dir == "" {
		r.path = m.path
	}
	first, _, _ := strings.Cut(m.dir, "/")
	m.published = !slices.Contains([]string{"bench", "examples", "internal"}, first)
	for _, require := range f.Require {
		m.needs = append(m.needs, require.Mod.Path)
	}
	return m, nil
}

func (r *repository) parse(file string) (*modfile.File, error) {
	content, err := os.ReadFile(filepath.Join(r.root, file))
	if err != nil {
		return nil, err
	}
	return modfile.Parse(file, content, nil)
}

// sort puts required modules first.
func (r *repository) sort() error {
	ours := map[string]*mod{}
	for _, m := range r.modules {
		ours[m.path] = m
	}
	for _, m := range r.modules {
		m.needs = slices.DeleteFunc(m.needs, func(path string) bool { return ours[path] == nil })
	}
	left := r.modules
	r.modules = nil
	sorted := map[string]bool{}
	for len(left) > 0 {
		next := slices.IndexFunc(left, func(m *mod) bool {
			return !slices.ContainsFunc(m.needs, func(path string) bool { return !sorted[path] })
		})
		if next < 0 {
			return fmt.Errorf("module %s requires itself by others", left[0].path)
		}
		sorted[left[next].path] = true
		r.modules = append(r.modules, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return nil
}

func (r *repository) published() []*mod {
	return slices.DeleteFunc(slices.Clone(r.modules), func(m *mod) bool { return !m.published })
}

// tagOf returns the tag of a module's version, as the go command looks for it.
func (m *mod) tagOf(version string) string { return path.Join(m.dir, version) }

func (r *repository) folder(m *mod) string { return filepath.Join(r.root, filepath.FromSlash(m.dir)) }

func (r *repository) git(ctx context.Context, args ...string) (string, error) {
	return output(ctx, r.root, nil, "git", args...)
}

// output runs a program in dir, with more added to the environment, and returns what it prints.
func output(ctx context.Context, dir string, more []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), more...)
	out, err := cmd.Output()
	if err != nil {
		complaint := ""
		if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
			complaint = strings.TrimSpace(string(ended.Stderr))
		}
		text := cmp.Or(strings.TrimSpace(string(out)+"\n"+complaint), "it printed nothing")
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(out), nil
}
