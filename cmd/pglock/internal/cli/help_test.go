package cli_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// Everything that a command does fits two screens, with examples first, and all commands together have few flags.
func TestHelpFitsTheScreen(t *testing.T) {
	t.Parallel()
	const screen, columns, most = 24, 80, 75
	flags := 0
	for _, name := range []string{"", "monitor", "check", "watch", "serve", "replay", "report", "terminate", "cancel", "doctor", "run", "key",
		"migrate", "migrate up", "migrate down", "migrate version", "migrate print", "version"} {
		r := command(t, nil, append(strings.Fields(name), "--help")...).run()
		wantCode(t, r, 0)
		lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
		if n := len(lines); n > screen && (name == "" || n > 2*screen) {
			t.Errorf("the help of %q has %d lines", name, n)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > columns {
				t.Errorf("help of %q has a long line: %s", name, line)
			}
			if flag.MatchString(line) && !strings.Contains(line, "--help ") {
				flags++ // those of all commands, --dsn and --trust-owner, are in the help of pglock
			}
		}
		if usage, example := strings.Index(r.stdout, "Usage: pglock"), strings.Index(r.stdout, "\n  pglock "+name); name != "" &&
			(usage < 0 || example < usage || example > usage+200) {
			t.Errorf("the help of %q does not begin with usage and examples:\n%s", name, r.stdout)
		}
	}
	if flags < 40 || flags > most {
		t.Errorf("there are %d flags, want at most %d", flags, most)
	}
}

// What these commands cannot prevent is in their help.
func TestHelpSaysWhatIsLeftToTheReader(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"run":           "ignores SIGTERM runs beside the next holder for that long",
		"migrate print": "Where sqlc reads the file too, set\nomit_unused_structs in sqlc.yaml",
	} {
		wantText(t, command(t, nil, append(strings.Fields(name), "--help")...).run().stdout, says)
	}
}

var flag = regexp.MustCompile(`^ +(?:-\w, )?--[a-z]`)

func TestHelpMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"mointor":             `unknown command "mointor", did you mean monitor? (see pglock --help)`,
		"no-such-thing":       `unknown command "no-such-thing" (see pglock --help)`,
		"migrate upp":         `unknown command "upp", did you mean up? (see pglock migrate --help)`,
		"help nosuch":         `unknown command "nosuch" (see pglock --help)`,
		"help migrate upp":    `unknown command "migrate upp"`,
		"completion tcsh":     `unknown command "tcsh"`,
		"run -E x k true":     `"x" for "-E, --conflict-exit-code" flag: want an exit code between 0 and 255 (see`,
		"run -w 1e18 k true":  "must be less than 290 years",
		"migrate up now":      "expected no arguments (see pglock migrate up --help)",
		"version 2":           "expected no arguments",
		"--no-such-flag":      "unknown flag: --no-such-flag (see pglock --help)",
		"monitor -x":          "unknown shorthand flag: 'x' in -x (see pglock monitor --help)",
		"run -d":              "flag needs an argument",
		"monitor --once=yes":  `"yes"`,
		"monitor --once -w 5": "unknown shorthand flag",
		"key --output=xml a":  "must be one of text, json",
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
	for _, line := range []string{"migrate", "help", "help run", "help migrate up", "completion"} {
		r := command(t, nil, strings.Fields(line)...).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, "Usage:")
	}
	db := testenv.Database(t)
	r := command(t, nil, "-d", db.ConnString(), "--once", "-o", "text").run() // pglock alone is pglock monitor
	wantCode(t, r, 0)
	wantText(t, r.stdout, "/"+db.Name())
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
		"__complete mon":                   "monitor\t",
		"__complete monitor --output j":    "json\n",
		"__complete key --output ":         "text\njson\n",
		"__complete migrate ":              "version\t",
		"__complete monitor --once --read": "--read-only",
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
