// Command notices writes the licences and notices of everything that is linked into programs besides pglock itself: of
// the modules, on every system that releases are for, and of Go. Most of them must be given to who gets the program.
//
//	go run ./cmd/pglock/internal/notices [-systems linux,windows] FILE PACKAGE…
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	systems := flag.String("systems", "linux,darwin,windows,freebsd", "the values of GOOS")
	flag.Parse()
	if err := record(flag.Arg(0), strings.Split(*systems, ","), flag.Args()[min(1, flag.NArg()):]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func record(file string, systems, packages []string) error {
	if file == "" || len(packages) == 0 {
		return errors.New("want a file and packages")
	}
	text, err := notices(systems, packages)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
}

// linked is a package that is linked into a program, as go list describes it.
type linked struct {
	Dir      string
	Standard bool
	Root     string // Go's own directory, of standard packages
	Module   *struct {
		Path, Version, Dir string
		Main               bool
	}
}

var rule = strings.Repeat("=", 80)

// notices returns the texts, each under the name of its module.
func notices(systems, packages []string) (string, error) {
	directories := map[string]map[string]bool{} // where to look, by the name of the module
	for _, system := range systems {
		all, err := list(system, packages)
		if err != nil {
			return "", err
		}
		for _, p := range all {
			name, root := "Go, its standard library and runtime", p.Root
			switch {
			case p.Standard:
				p.Dir = root
			case p.Module == nil:
				return "", fmt.Errorf("package in %s is in no module", p.Dir)
			case p.Module.Main:
				continue
			default:
				name, root = p.Module.Path+" "+p.Module.Version, p.Module.Dir
			}
			if directories[name] == nil {
				directories[name] = map[string]bool{}
			}
			for dir := p.Dir; strings.HasPrefix(dir, root); dir = filepath.Dir(dir) { // a package can have a licence of its own
				directories[name][dir] = true
			}
		}
	}
	text := "This program contains the following software. Its own licence is in the file LICENSE.\n"
	for _, name := range slices.Sorted(maps.Keys(directories)) {
		found, err := texts(slices.Sorted(maps.Keys(directories[name])))
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		text += "\n" + rule + "\n" + name + "\n" + rule + "\n\n" + found
	}
	return text, nil
}

func list(system string, packages []string) (all []linked, err error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Standard,Root,Module"}, packages...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p linked
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// legal matches the names of files with licences and notices, and not those of code.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|authors|unlicense)([-._](md|txt|rst|mit|bsd|apache.*|[0-9]+.*))?$`)

// licence matches those of them that permit something.
var licence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)`)

// texts returns the legal texts in the directories, and an error if there is no licence.
func texts(directories []string) (text string, err error) {
	licensed := false
	for _, dir := range directories {
		files, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if !file.Type().IsRegular() || !legal.MatchString(file.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(dir, file.Name()))
			if err != nil {
				return "", err
			}
			licensed = licensed || licence.MatchString(file.Name())
			text += strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n")) + "\n\n"
		}
	}
	if !licensed {
		return "", errors.New("there is no licence")
	}
	return text, nil
}
