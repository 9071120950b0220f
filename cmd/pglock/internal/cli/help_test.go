package cli_test

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestHelpEveryCommandHasHelpWithAnExample(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "run", "monitor", "exporter", "cancel", "terminate", "doctor", "key", "migrate", "migrate up",
		"migrate down", "migrate version", "migrate print", "version"} {
		r := command(t, nil, append(strings.Fields(name), "--help")...).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, "Usage:\n  pglock "+name, "Examples:\n  ", "pglock "+name)
		for line := range strings.Lines(r.stdout) {
			if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > 80 {
				t.Errorf("help of %q has a long line: %s", name, line)
			}
		}
		if strings.Contains(r.stdout, "worker") {
			t.Errorf("the help of %q shows internal text", name)
		}
	}
}

func TestHelpListsTheExitCodes(t *testing.T) {
	t.Parallel()
	for line, codes := range map[string][]string{
		"--help":     {" 64 ", " 65 ", " 66 ", " 69 ", " 70 ", " 75 ", " 77 ", " 78 ", " 126 ", " 127 ", " 128+n ", " 1 "},
		"run --help": {" 64 ", " 65 ", " 69 ", " 70 ", " 75 ", " 126 ", " 127 ", " 128+n "},
	} {
		text := command(t, nil, strings.Fields(line)...).run().stdout
		wantText(t, strings.Join(strings.Fields(text), " "), codes...)
	}
}

func TestHelpMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"mointor":            `unknown command "mointor", did you mean monitor? (see pglock --help)`,
		"no-such-thing":      `unknown command "no-such-thing" (see pglock --help)`,
		"migrate upp":        `unknown command "upp", did you mean up? (see pglock migrate --help)`,
		"help nosuch":        `unknown command "nosuch" (see pglock --help)`,
		"help migrate upp":   `unknown command "migrate upp"`,
		"completion tcsh":    `unknown command "tcsh"`,
		"run -E x k true":    `"x" for "-E, --conflict-exit-code" flag: want an exit code between 0 and 255 (see`,
		"run -w 1e18 k true": "must be less than 290 years",
		"migrate up now":     "expected no arguments (see pglock migrate up --help)",
		"version 2":          "expected no arguments",
		"--no-such-flag":     "unknown flag: --no-such-flag (see pglock --help)",
		"monitor -x":         "unknown shorthand flag: 'x' in -x (see pglock monitor --help)",
		"run -d":             "flag needs an argument",
		"monitor --once=yes": `"yes"`,
		"key --output=xml a": "must be one of table, json",
	} {
		r := command(t, nil, strings.Fields(line)...).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, says)
		if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: stdout is %q and stderr %q, want one message", line, r.stdout, r.stderr)
		}
	}
}

func TestHelpCommandsWithoutAnythingToDoShowTheirHelp(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "migrate", "help", "help run", "help migrate up", "completion"} {
		r := command(t, nil, strings.Fields(line)...).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, "Usage:")
	}
}

// Programs know their modules; test binaries do not.
func TestProgramHelpVersion(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "run", "../..", "version").Output()
	must.Succeed(t, err)
	wantText(t, string(out), "pglock ", "commit ", "go     go1.")
	wantText(t, command(t, nil, "--version").run().stdout, "pglock ")
}

func TestHelpTheShellCompletes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"__complete mon":                      "monitor\t",
		"__complete monitor --output j":       "json\n",
		"__complete key --output ":            "table\njson\n",
		"__complete migrate ":                 "version\t",
		"__complete monitor --once --waiting": "--waiting",
	} {
		args := strings.Split(line, " ")
		wantText(t, command(t, nil, args...).run().stdout, want)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := command(t, nil, "completion", shell).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, "__complete", "pglock")
	}
}
