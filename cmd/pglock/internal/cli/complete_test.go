package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// shell is a shell that the tests complete in. PowerShell is in no package of Debian, so only the characters of the
// candidates are tested for it.
type shell struct {
	args    []string
	startup string // the file in the home directory that it reads first
	prompt  string // the commands that show a prompt; the functions of pglock are loaded after them
}

func shells(t *testing.T) map[string]shell {
	bashCompletion, err := testenv.FindBashCompletion()
	must.Succeed(t, err)
	return map[string]shell{
		"bash": {[]string{"--noprofile", "--rcfile", ".bashrc"}, ".bashrc", "PS1='ready> '; . " + bashCompletion},
		"zsh":  {nil, ".zshrc", "PROMPT='ready> '; autoload -U compinit; compinit -u -D"},
		"fish": {[]string{"--private"}, ".config/fish/config.fish",
			"set -U fish_greeting; function fish_prompt; echo -n 'ready> '; end"},
	}
}

// inShell starts a shell with the completions of pglock in a terminal. It returns when the shell has a prompt. The shell's
// directory is its home.
func inShell(t *testing.T, db *testenv.DB, name string, sh shell) (home string, m *terminal) {
	t.Helper()
	home = t.TempDir()
	write := func(file, text string, mode os.FileMode) {
		path := filepath.Join(home, file)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(text), mode))
	}
	p := on(t, db)
	write("bin/pglock", fmt.Sprintf("#!/bin/sh\n%s=%s exec '%s' \"$@\"\n", roleVariable, roleCommand, p.Path), 0o755)
	r := command(t, nil, "completion", name).run()
	wantCode(t, r, 0)
	write("completion", r.stdout, 0o644)
	write(sh.startup, sh.prompt+"; . ./completion\n", 0o644)
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("no %s, whose completion is tested: install it (apt-get install %[1]s): %v", name, err)
	}
	m = newTerminal(t, append(p.Env, "HOME="+home, "ZDOTDIR="+home, "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "INPUTRC=/dev/null"))
	m.run(append([]string{"new-session", "-d", "-x", "200", "-y", "50", "-c", home, "--", "env", // tmux sets PATH itself
		"PATH=" + filepath.Join(home, "bin") + ":" + os.Getenv("PATH"), path}, sh.args...)...)
	m.shows("ready>")
	return home, m
}

// bash puts what two candidates have in common on the command line without quoting it, and evaluates the command line when
// Tab is pressed again.
func TestCompletionNamesOfStrangersReachNoShell(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, nil))
	var pid int32
	for _, name := range []string{"a$(id>executed)", "b`id>executed`", "c(id>executed)"} {
		for _, key := range []string{name + "x", name + "y"} {
			pid = hold(t, db, fmt.Sprintf("SET application_name = '%s'; SELECT pg_advisory_lock(%d) /*%s*/",
				key[1:], pglock.NewKey(key).Int64(), key))
		}
	}
	hold(t, db, fmt.Sprintf("SELECT pg_advisory_lock(%d) /*harmless:42*/", pglock.NewKey("harmless:42").Int64()))

	for name, sh := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, m := inShell(t, db, name, sh)
			for _, begun := range []string{"--key a", "--key b", "--key c", fmt.Sprint(pid)[:1]} {
				m.types("pglock terminate "+begun, "Tab", "Tab", "C-u")
			}
			tried := 0
			testenv.WaitUntil(t, "a harmless name is completed", func() bool { // on a busy machine the server may answer too late
				tried++
				end := fmt.Sprintf("end%d", tried)
				m.types("C-u", "pglock terminate --key harm", "Tab", end)
				m.shows(end)
				return strings.Contains(m.unwrapped(), "--key harmless:42")
			})
			if _, err := os.Stat(filepath.Join(home, "executed")); err == nil {
				t.Errorf("%s has executed a name:\n%s", name, m.unwrapped())
			}
		})
	}
}
