package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// library is the module in the current directory.
type library struct{ path, dir, goVersion string }

func thisModule() (library, error) {
	lines, err := goLines(".", "list", "-m", "-f", "{{.Path}}\n{{.Dir}}\n{{.GoVersion}}")
	if err != nil {
		return library{}, err
	}
	if len(lines) != 3 {
		return library{}, fmt.Errorf("go list -m said %q", lines)
	}
	return library{path: lines[0], dir: lines[1], goVersion: lines[2]}, nil
}

const program = `package main

import (
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock"
)

func main() { fmt.Println(pglock.NewKey("consumer")) }
`

// consumerLists builds the program in a separate directory and lists its dependencies.
func consumerLists(lib library) (lists []list, err error) {
	dir, err := os.MkdirTemp("", "pglock-consumer-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := writeConsumer(dir, lib, program, ""); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", os.DevNull, "."}} {
		if _, err := goLines(dir, args...); err != nil {
			return nil, err
		}
	}
	return describe(dir)
}

// writeConsumer writes a module of one program. more is added to its go.mod.
func writeConsumer(dir string, lib library, program, more string) error {
	goMod := fmt.Sprintf("module example.com/consumer\n\ngo %s\n\nrequire %s v0.0.0\n\nreplace %s => %q\n%s",
		lib.goVersion, lib.path, lib.path, lib.dir, more)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(goMod), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600),
	)
}

// foreign prints a module unless it is the program's own or the library's.
const foreign = "{{if not (or .Main .Replace)}}{{.Path}}@{{.Version}}{{end}}"

func describe(dir string) ([]list, error) {
	graph, graphErr := goLines(dir, "list", "-m", "-f", foreign, "all")
	sums, sumsErr := sumsIn(filepath.Join(dir, "go.sum"))
	compiled, compiledErr := goLines(dir, "list", "-deps", "-f", "{{with .Module}}"+foreign+"{{end}}", ".")
	return []list{
		newList("graph.txt", "modules in its module graph", graph),
		newList("sums.txt", "entries of its go.sum", sums),
		newList("compiled.txt", "modules compiled into it", compiled),
	}, errors.Join(graphErr, sumsErr, compiledErr)
}

// sumsIn lists what a go.sum has checksums of: "path@version", or "path@version/go.mod" for its go.mod alone.
func sumsIn(file string) (sums []string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s has the line %q", file, line)
		}
		sums = append(sums, fields[0]+"@"+fields[1])
	}
	return sums, nil
}

// goLines runs the go command in dir and returns the lines that it prints, without empty ones.
func goLines(dir string, args ...string) ([]string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", cmd, err, complaint(err))
	}
	isEmpty := func(line string) bool { return line == "" }
	return slices.DeleteFunc(strings.Split(string(output), "\n"), isEmpty), nil
}

func complaint(err error) string {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "\n" + strings.TrimSpace(string(failed.Stderr))
	}
	return ""
}
