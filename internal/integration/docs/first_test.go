package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// TestProgramDocsTheFirstWorksAsPasted does what README.md says first, in an empty folder and with an empty cache of
// modules. pglock comes from a rehearsed release of the last commit, and all else from this machine's cache.
func TestProgramDocsTheFirstWorksAsPasted(t *testing.T) {
	page := filepath.Join(root, "README.md")
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(read(t, page))
	first := programs(t, page)[0]
	program := filepath.Join(t.TempDir(), "pasted")
	must.Succeed(t, os.WriteFile(program, []byte(first.code), 0o600))
	cmd := exec.Command("sh", "-e", "-c", commands[1])
	cmd.Dir = t.TempDir()
	cmd.Env = append(stranger(t), "EDITOR=cp "+program, "DATABASE_URL="+testenv.Database(t).ConnString())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if lines := splitLines(string(out)); !matches(first.before, lines[max(len(lines)-len(first.before), 0):]) {
		t.Errorf("it has printed\n%s\nand the page has\n%s", out, strings.Join(first.before, "\n"))
	}
}

// stranger returns the environment of a user who has nothing of pglock.
func stranger(t *testing.T) []string {
	t.Helper()
	proxy, home := t.TempDir(), t.TempDir()
	release := filepath.Join(t.TempDir(), "release")
	build := exec.Command("go", "build", "-o", release, "./release")
	build.Dir = filepath.Join(root, "internal", "tools")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	serve := exec.Command(release, "serve", "v0.1.0", proxy)
	serve.Dir = root
	for _, cmd := range []*exec.Cmd{build, serve} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	caches, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
	must.Succeed(t, err)
	known := strings.Fields(string(caches))
	return append(os.Environ(),
		"HOME="+home, "GOPATH="+filepath.Join(home, "go"), "GOMODCACHE="+filepath.Join(home, "modules"), "GOCACHE="+known[1],
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(known[0], "cache", "download"),
		"GOFLAGS=-modcacherw -trimpath", "GOWORK=off", "GOTOOLCHAIN=local", "GOPRIVATE=", "GONOPROXY=", "GOSUMDB=off",
	)
}
