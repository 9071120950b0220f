package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const repository = "../../../.."

var (
	shellBlock = regexp.MustCompile("(?s)```(?:sh|console)\n(.*?)```")
	anyBlock   = regexp.MustCompile("(?s)```.*?```")
)

// TestDocsCommandsExist parses every pglock command line in README.md and docs: its command and its flags must exist.
func TestDocsCommandsExist(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range append(pages, filepath.Join(repository, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				args, ok := pglockArguments(line)
				if !ok {
					continue
				}
				count++
				if err := parses(args); err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(page), strings.TrimSpace(line), err)
				}
			}
		}
	}
	if count < 10 {
		t.Errorf("there are only %d command lines", count)
	}
}

var flagInText = regexp.MustCompile("(?:^|[ `(])--([a-z][a-z-]+)")

// TestDocsFlagsExist looks up every --flag that the text of README.md and docs names outside of blocks: some command of
// pglock must have it.
func TestDocsFlagsExist(t *testing.T) {
	known := map[string]bool{"single-transaction": true} // psql's
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		for _, sub := range cmd.Commands() {
			add(sub)
		}
	}
	add(newRoot())
	pages, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, filepath.Join(repository, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(anyBlock.ReplaceAllString(string(text), ""), -1) {
			if strings.HasPrefix(span, "`pglockdev ") {
				continue // the development tool's
			}
			for _, match := range flagInText.FindAllStringSubmatch(span, -1) {
				if !known[match[1]] {
					t.Errorf("%s: no command has --%s (%s)", filepath.Base(page), match[1], span)
				}
			}
		}
	}
}

// pglockArguments returns the arguments of a line that runs pglock, up to what the shell takes.
func pglockArguments(line string) (args []string, ok bool) {
	fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
	if len(fields) == 0 || fields[0] != "pglock" {
		return nil, false
	}
	for _, field := range fields[1:] {
		if strings.HasPrefix(field, "#") || strings.ContainsAny(field, "|&;<>") {
			break
		}
		args = append(args, strings.Trim(field, `'"`))
	}
	return args, true
}

func parses(args []string) error {
	cmd, rest, err := newRoot().Find(args)
	if err != nil {
		return err
	}
	rest = untilCommand(rest)
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return validArguments(cmd)
}

// untilCommand drops the command that "pglock run" runs.
func untilCommand(args []string) []string {
	for i, arg := range args {
		if arg == "--" {
			return args[:i]
		}
	}
	return args
}

// validArguments refuses arguments of a group of commands: they name a subcommand that does not exist.
func validArguments(cmd *cobra.Command) error {
	if cmd.HasSubCommands() {
		return cmd.ValidateArgs(cmd.Flags().Args())
	}
	return nil
}
