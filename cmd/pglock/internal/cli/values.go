package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/pglock"
)

// seconds is the value of a flag that accepts a Go duration (1m30s), or a number of seconds as flock(1) does (90, 0.5).
type seconds time.Duration

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if number, numberErr := strconv.ParseFloat(text, 64); numberErr == nil {
		d, err = fromSeconds(number)
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("must be less than 290 years")
	case err != nil:
		return errors.New("want a duration such as 1m30s, or a number of seconds such as 0.5")
	case d < 0:
		return errors.New("must not be negative")
	}
	*s = seconds(d)
	return nil
}

// fromSeconds refuses text that is not a number, and durations of more than about 290 years.
func fromSeconds(number float64) (time.Duration, error) {
	if math.IsNaN(number) {
		return 0, strconv.ErrSyntax
	}
	if nanoseconds := number * float64(time.Second); math.Abs(nanoseconds) < math.MaxInt64 {
		return time.Duration(nanoseconds), nil
	}
	return 0, strconv.ErrRange
}

func (s *seconds) String() string {
	if *s == 0 {
		return "0" // not shown in the help
	}
	return time.Duration(*s).String()
}

func (s *seconds) Type() string { return "duration" }

// exitCode is the value of a flag that takes an exit code.
type exitCode uint8

func (c *exitCode) Set(text string) error {
	code, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return errors.New("want an exit code between 0 and 255")
	}
	*c = exitCode(code)
	return nil
}

func (c *exitCode) String() string { return strconv.Itoa(int(*c)) }
func (c *exitCode) Type() string   { return "code" }

// format is the value of --output.
type format string

const (
	formatText   format = "text"
	formatJSON   format = "json"
	formatNDJSON format = "ndjson" // on one line each
)

// addTo adds the flag, with the formats that the command has. The first is the default.
func (f *format) addTo(cmd *cobra.Command, from ...format) {
	*f = from[0]
	choice := formatChoice{f, from}
	cmd.Flags().VarP(choice, "output", "o", fmt.Sprintf("how to print: `%s`", choice.list("|")))
	complete(cmd, "output", strings.Split(choice.list(" "), " ")...)
}

// formatChoice is the value of the flag.
type formatChoice struct {
	chosen *format
	from   []format
}

func (c formatChoice) Set(text string) error {
	if !slices.Contains(c.from, format(text)) {
		return fmt.Errorf("must be one of %s", c.list(", "))
	}
	*c.chosen = format(text)
	return nil
}

func (c formatChoice) String() string {
	if c.chosen == nil { // the flag package calls it on the zero value
		return ""
	}
	return string(*c.chosen)
}

func (c formatChoice) Type() string { return "format" }

func (c formatChoice) list(separator string) string {
	texts := make([]string, len(c.from))
	for i, format := range c.from {
		texts[i] = string(format)
	}
	return strings.Join(texts, separator)
}

// complete makes the shell complete a flag's value to one of values instead of a file.
func complete(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was not added before
	}
}

// parseKey parses a key. If the name looks like a number, it asks whether a number was meant.
func parseKey(cmd *cobra.Command, text string) (pglock.Key, error) {
	key, err := pglock.ParseKey(text)
	if err != nil {
		return key, misuse(cmd, "%s", strings.TrimPrefix(err.Error(), program))
	}
	hint(cmd.ErrOrStderr(), key)
	return key, nil
}

func parseKeys(cmd *cobra.Command, texts []string) (keys []pglock.Key, err error) {
	for _, text := range texts {
		key, err := parseKey(cmd, text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func hint(w io.Writer, key pglock.Key) {
	name := key.Name()
	if name != "" && strings.Trim(name, "0123456789") == "" {
		say(w, "%q is taken as a name; did you mean @%s, the lock that SQL knows as pg_advisory_lock(%[2]s)?", name, name)
	}
}
