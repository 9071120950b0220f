package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// programs has one for each published module, by its folder.
//
//go:embed all:testdata
var programs embed.FS

// stranger has a go command without any module, for which no setting is made but the proxy.
type stranger struct {
	repo                 *repository
	home, proxy, version string
	environment          []string
}

func newStranger(r *repository, home, proxy, version string) *stranger {
	s := &stranger{repo: r, home: home, proxy: proxy, version: version}
	s.environment = []string{
		"HOME=" + home, "GOPATH=" + filepath.Join(home, "go"), "GOBIN=" + filepath.Join(home, "bin"),
		"GOMODCACHE=" + filepath.Join(home, "modules"),
		// With -trimpath the compiled packages of other modules can be shared with the next rehearsal.
		"GOFLAGS=-trimpath", "GOWORK=off", "GOTOOLCHAIN=local", "GOPRIVATE=", "GONOPROXY=", "GOINSECURE=", "CGO_ENABLED=0",
		// The other modules were verified when this machine downloaded them, and a database of checksums may be out of reach.
		"GOSUMDB=off", "GONOSUMDB=" + r.path + "," + r.path + "/*",
	}
	return s
}

// inherit adds what the stranger gets of this machine: modules that were downloaded, and compiled packages.
func (s *stranger) inherit(ctx context.Context) error {
	known, err := output(ctx, s.repo.root, nil, "go", "env", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return err
	}
	dirs := strings.Fields(known)
	if len(dirs) != 2 {
		return fmt.Errorf("go env says %q", known)
	}
	s.environment = append(s.environment, "GOCACHE="+dirs[1],
		"GOPROXY=file://"+filepath.ToSlash(s.proxy)+",file://"+filepath.ToSlash(filepath.Join(dirs[0], "cache", "download")))
	return nil
}

func (s *stranger) goIn(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, s.environment, "go", args...)
}

// use gets a module and builds the program that uses it. Of the command's module it uses the command, as a tool.
func (s *stranger) use(ctx context.Context, m *mod) error {
	dir, err := s.program(m)
	if err != nil {
		return err
	}
	steps := [][]string{
		{"mod", "init", "example.com/stranger"}, {"get", m.path + "@" + s.version}, {"mod", "tidy"}, {"vet", "."}, {"run", "."},
	}
	if m.dir == command {
		steps[1], steps[4] = []string{"get", "-tool", m.path + "@" + s.version}, []string{"tool", "pglock", "version"}
	}
	for _, args := range steps {
		if _, err := s.goIn(ctx, dir, args...); err != nil {
			return err
		}
	}
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err == nil && (strings.Contains(string(goMod), "replace") || !strings.Contains(string(goMod), m.path+" "+s.version)) {
		err = fmt.Errorf("its go.mod is\n%s", goMod)
	}
	if err == nil {
		fmt.Printf("%-60s got and used\n", m.path)
	}
	return err
}

// program writes the program that uses a module to a folder of its own.
func (s *stranger) program(m *mod) (dir string, err error) {
	name := cmp.Or(strings.ReplaceAll(m.dir, "/", "-"), "root")
	text, err := programs.ReadFile("testdata/" + path.Base(name) + ".go.txt")
	if err != nil {
		return "", fmt.Errorf("add a program that uses it: %w", err)
	}
	dir = filepath.Join(s.home, "programs", name)
	return dir, writeProgram(dir, string(text))
}

func writeProgram(dir, text string) error {
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644))
}

// install installs one of our commands, and runs it if there are arguments. Its output has to name the version.
func (s *stranger) install(ctx context.Context, name string, args ...string) error {
	if _, err := s.goIn(ctx, s.home, "install", s.repo.path+"/cmd/"+name+"@"+s.version); err != nil {
		return err
	}
	fmt.Printf("%-60s installed\n", s.repo.path+"/cmd/"+name)
	if len(args) == 0 {
		return nil
	}
	out, err := exec.CommandContext(ctx, filepath.Join(s.home, "bin", name), args...).Output()
	if err == nil && !strings.Contains(string(out), s.version) {
		err = errors.New("it names another version")
	}
	fmt.Printf("$ %s %s\n%s", name, strings.Join(args, " "), out)
	return err
}

// clear removes the cache of modules, whose files are read-only.
func (s *stranger) clear() error {
	if _, err := os.Stat(s.home); err != nil {
		return nil
	}
	_, err := s.goIn(context.Background(), s.home, "clean", "-modcache")
	return err
}
