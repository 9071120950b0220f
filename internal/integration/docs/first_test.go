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

// stranger returns the environment of a user who has nothing of pglock. Its git finds pglock's repository in a copy with a
// release.
func stranger(t *testing.T) []string {
	t.Helper()
	source, home := filepath.Join(t.TempDir(), "source"), t.TempDir()
	absolute, err := filepath.Abs(root)
	must.Succeed(t, err)
	for _, args := range [][]string{
		{"git", "clone", "--quiet", "--no-tags", "--depth=1", "file://" + absolute, source},
		{"git", "-C", source, "config", "user.name", "stranger"},
		{"git", "-C", source, "config", "user.email", "stranger@example.com"},
		{filepath.Join(source, "internal", "tools", "release.sh"), "tag", "v0.1.0"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	caches, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
	must.Succeed(t, err)
	known := strings.Fields(string(caches))
	const path = "github.com/pglock-toolkit/pglock"
	return append(os.Environ(),
		"HOME="+home, "GOPATH="+filepath.Join(home, "go"), "GOMODCACHE="+filepath.Join(home, "modules"), "GOCACHE="+known[1],
		"GOPROXY=file://"+filepath.Join(known[0], "cache", "download"), "GONOPROXY="+path+","+path+"/*", "GONOSUMDB=*",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+source+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+path,
		"GOFLAGS=-modcacherw -trimpath", "GOWORK=off", "GOTOOLCHAIN=local", "GOSUMDB=off",
	)
}
