package main

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The list of modules in a program is that of the linker.
func TestProgramEveryModuleInAProgramHasItsLicenceInTheNotices(t *testing.T) {
	programs := []string{"github.com/pglock-toolkit/pglock/cmd/pglock", "github.com/pglock-toolkit/pglock/cmd/sqlc-gen-pglock"}
	dir := t.TempDir()
	build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-o", dir + "/"}, programs...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, program := range programs {
		file := filepath.Join(dir, "notices", filepath.Base(program))
		if err := record(file, []string{"linux", "darwin", "windows", "freebsd"}, []string{program}); err != nil {
			t.Fatal(err)
		}
		notices, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.ReadFile(filepath.Join(dir, filepath.Base(program)))
		if err != nil || len(info.Deps) == 0 {
			t.Fatalf("%s has %d modules (%v)", program, len(info.Deps), err)
		}
		names := []string{"Go, its standard library and runtime"}
		for _, module := range info.Deps {
			if strings.HasPrefix(module.Path, "github.com/pglock-toolkit/pglock") {
				continue // ours, whose licence is in the file LICENSE
			}
			names = append(names, module.Path+" "+module.Version)
		}
		for _, name := range names {
			_, after, found := strings.Cut(string(notices), "\n"+name+"\n")
			text, _, _ := strings.Cut(strings.TrimLeft(after, "=\n"), "\n"+rule)
			if !found || len(text) < 100 {
				t.Errorf("the notices of %s have no licence of %s", program, name)
			}
		}
		if filepath.Base(program) == "pglock" && !strings.Contains(string(notices), "\ngithub.com/inconshreveable/mousetrap ") {
			t.Error("the notices have only the modules of this system")
		}
	}
}

func TestAModuleWithoutALicenceIsNotReleased(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"license.go", "AUTHORS", "licenser.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := texts([]string{dir}); err == nil {
		t.Errorf("the licence is %q", text)
	}
	for _, name := range []string{"LICENSE", "licence.txt", "LICENSE-MIT", "COPYING.md", "LICENSE.APACHE2"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := texts([]string{dir}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Each archive and package has the notices.
func TestReleasesHaveTheNotices(t *testing.T) {
	config, err := os.ReadFile("../../../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(config), "\narchives:")
	archives, after, _ := strings.Cut(after, "\nchecksum:")
	_, packages, _ := strings.Cut(after, "\nnfpms:")
	for what, part := range map[string]string{"archives": archives, "packages": packages} {
		if !strings.Contains(part, "- src: .tmp/package/THIRD_PARTY_NOTICES\n") {
			t.Errorf("the %s have no notices", what)
		}
	}
	if !strings.Contains(string(config), "- make notices\n") {
		t.Error("the notices are not made for a release")
	}
}
