package serverlog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// escapes are patterns for the letters of log_line_prefix
// (https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-LOG-LINE-PREFIX).
var escapes = map[byte]string{
	'm': `(?P<m>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+)`, 't': `(?P<t>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+)`,
	'n': `(?P<n>\d+\.\d{3})`, 's': `(?P<s>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+)`, 'p': `(?P<p>\d+)`, 'P': `\d*`, 'l': `\d+`, 'x': `\d+`,
	'c': `(?P<c>[0-9a-f]+\.[0-9a-f]+)`, 'v': `[0-9/]*`, 'e': `\w{5}`, 'Q': `-?\d+`, '%': `%`,
	'a': `(?P<a>.*?)`, 'u': `.*?`, 'd': `.*?`, 'r': `.*?`, 'h': `.*?`, 'i': `.*?`, 'b': `.*?`, 'L': `.*?`,
}

// session begins what only the lines of sessions have.
const session = `(?P<session>`

// afterPrefix matches what stands behind log_line_prefix.
const afterPrefix = `(\S+):  (.*)$`

// compile turns a log_line_prefix into a regular expression.
func compile(prefix string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	optional := ""
	for i := 0; i < len(prefix); i++ {
		if prefix[i] != '%' {
			b.WriteString(regexp.QuoteMeta(string(prefix[i])))
			continue
		}
		for i++; i < len(prefix) && (prefix[i] == '-' || prefix[i] >= '0' && prefix[i] <= '9'); i++ {
			optional = ` *` // the value is padded
		}
		switch {
		case i == len(prefix):
			return nil, errors.New("log_line_prefix ends with %")
		case prefix[i] == 'q': // the rest is missing in lines of processes that are no sessions
			if !strings.Contains(b.String(), session) && i+1 < len(prefix) {
				b.WriteString(session)
			}
			continue
		case escapes[prefix[i]] == "":
			return nil, fmt.Errorf("log_line_prefix has the unknown escape %%%c", prefix[i])
		}
		escape, name := escapes[prefix[i]], fmt.Sprintf("?P<%c>", prefix[i])
		if strings.Contains(b.String(), name) {
			escape = strings.Replace(escape, name, "?:", 1) // only the first has the name
		}
		b.WriteString(optional + escape + optional)
		optional = ""
	}
	if strings.Contains(b.String(), session) {
		b.WriteString(")?")
	}
	b.WriteString(afterPrefix)
	expression, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("log_line_prefix cannot be read: %w", err)
	}
	for _, name := range []string{"m", "t", "n"} {
		if expression.SubexpIndex(name) > 0 {
			return expression, nil
		}
	}
	return nil, errors.New("log_line_prefix has no time (%m, %t or %n)")
}

// sqlstate matches the beginning of a message if log_error_verbosity is verbose.
var sqlstate = regexp.MustCompile(`^[0-9A-Z]{5}: `)

// stderr reads lines. The detail and the context of a message are on the lines that follow it.
func (c *collector) stderr(r io.Reader, prefix string) error {
	expression, err := compile(prefix)
	if err != nil {
		return err
	}
	bare := regexp.MustCompile(strings.TrimSuffix(expression.String(), afterPrefix))
	lines, matched := 0, 0
	var last *Wait // the message whose further lines follow, if it is about a wait
	err = eachLine(r, maxStderrLine, false, func(line []byte, _ bool) {
		lines++
		match := expression.FindStringSubmatch(string(line))
		if match == nil {
			if bare.Match(line) {
				c.Skipped.Misfit++
			}
			return // a continuation line, or a line from the server's start
		}
		if i := expression.SubexpIndex("session"); i < 0 || match[i] != "" {
			matched++
		}
		e := c.entryOf(expression, match)
		switch {
		case e.severity == "DETAIL" && last != nil:
			last.Holders = holdersIn(e.text, last.PID)
		case e.severity == "CONTEXT" && last != nil && raised(e.text, true):
			c.Waits = c.Waits[:len(c.Waits)-1]
			c.Skipped.Doubtful++
			last = nil
		}
		if e.severity != "DETAIL" && e.severity != "HINT" && e.severity != "QUERY" {
			last = nil
		}
		if c.add(e) {
			last = &c.Waits[len(c.Waits)-1]
		}
	})
	if err == nil && lines > 0 && matched == 0 {
		return fmt.Errorf("no line begins with the log_line_prefix %q", prefix)
	}
	return err
}

// entryOf returns the message of a line. Its process and the session's start are in %p and %s, or both in %c.
func (c *collector) entryOf(expression *regexp.Regexp, match []string) entry {
	field := func(name string) string {
		if i := expression.SubexpIndex(name); i > 0 {
			return match[i]
		}
		return ""
	}
	e := entry{at: func() (time.Time, error) { return c.timeOf(expression, match) }, severity: match[len(match)-2],
		text: sqlstate.ReplaceAllString(match[len(match)-1], ""), application: field("a"), pid: field("p")}
	if started := field("s"); started != "" {
		e.started = c.timeIn(started)
	}
	if start, process, ok := strings.Cut(field("c"), "."); ok {
		seconds, errStart := strconv.ParseInt(start, 16, 40)
		pid, errPID := strconv.ParseInt(process, 16, 32)
		e.started = func() (time.Time, error) { return time.Unix(seconds, 0), errors.Join(errStart, errPID) }
		e.pid = strconv.FormatInt(pid, 10)
	}
	return e
}

func (c *collector) timeOf(expression *regexp.Regexp, match []string) (time.Time, error) {
	for _, name := range []string{"m", "t"} {
		if i := expression.SubexpIndex(name); i > 0 {
			return parseTime(match[i], c.zone)
		}
	}
	seconds, err := strconv.ParseFloat(match[expression.SubexpIndex("n")], 64)
	if err != nil || seconds > math.MaxInt32*100 {
		return time.Time{}, errors.New("a time out of range")
	}
	return time.UnixMicro(int64(seconds * 1e6)).UTC(), nil
}
