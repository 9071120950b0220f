package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

const pgx = "github.com/jackc/pgx/v5"

// mostMore is how many modules more than pgx a program may have in its graph that imports only package pglock:
// golang-migrate, goleak, and go-redis with three that it needs.
const mostMore = 6

// measure compares what the program of the root's module, which imports only package pglock, has in its module graph
// with one that imports only pgx, and checks what is compiled into it.
func (s *stranger) measure(ctx context.Context) error {
	ours := filepath.Join(s.home, "programs", "root")
	graph, err := s.graph(ctx, ours)
	if err != nil {
		return err
	}
	alone, err := s.graphOfPgx(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("a program that imports only package pglock has %d other modules in its graph, one with only pgx %d\n",
		len(graph), len(alone))
	if len(graph) > len(alone)+mostMore {
		return fmt.Errorf("at most %d more are allowed: %s", mostMore, strings.Join(graph, " "))
	}
	return s.compiled(ctx, ours)
}

// graph returns the paths of all modules in the module graph of the program in dir, without its own and ours.
func (s *stranger) graph(ctx context.Context, dir string) ([]string, error) {
	text, err := s.goIn(ctx, dir, "mod", "graph")
	paths := map[string]bool{}
	for _, node := range strings.Fields(text) {
		path, version, _ := strings.Cut(node, "@")
		if version != "" && path != "go" && path != "toolchain" && path != s.repo.path {
			paths[path] = true
		}
	}
	return slices.Sorted(maps.Keys(paths)), err
}

func (s *stranger) graphOfPgx(ctx context.Context) ([]string, error) {
	dir := filepath.Join(s.home, "programs", "pgx")
	if err := writeProgram(dir, "package main\n\nimport _ \""+pgx+"/pgxpool\"\n\nfunc main() {}\n"); err != nil {
		return nil, err
	}
	version, err := s.goIn(ctx, filepath.Join(s.home, "programs", "root"), "list", "-m", "-f", "{{.Version}}", pgx)
	if err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"mod", "init", "example.com/stranger"}, {"get", pgx + "@" + strings.TrimSpace(version)}, {"mod", "tidy"}} {
		if _, err := s.goIn(ctx, dir, args...); err != nil {
			return nil, err
		}
	}
	return s.graph(ctx, dir)
}

// compiled checks that the program consists of pgx, what pgx needs, the standard library, and us.
func (s *stranger) compiled(ctx context.Context, dir string) error {
	const modules = `{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}`
	ours, err := s.goIn(ctx, dir, "list", "-deps", "-f", modules, ".")
	if err != nil {
		return err
	}
	allowed, err := s.goIn(ctx, filepath.Join(s.home, "programs", "pgx"), "list", "-deps", "-f", modules, pgx+"/...")
	if err != nil {
		return err
	}
	known := map[string]bool{s.repo.path: true}
	for _, module := range strings.Fields(allowed) {
		known[module] = true
	}
	for _, module := range strings.Fields(ours) {
		if !known[module] {
			return fmt.Errorf("package pglock imports %s", module)
		}
	}
	return nil
}
