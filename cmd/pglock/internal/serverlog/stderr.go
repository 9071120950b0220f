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
	'n': `(?P<n>\d+\.\d{3})`, 's': `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+`, 'p': `\d+`, 'P': `\d*`, 'l': `\d+`, 'x': `\d+`,
	'c': `[0-9a-f.]+`, 'v': `[0-9/]*`, 'e': `\w{5}`, 'Q': `-?\d+`, '%': `%`,
	'a': `(?P<a>.*?)`, 'u': `.*?`, 'd': `.*?`, 'r': `.*?`, 'h': `.*?`, 'i': `.*?`, 'b': `.*?`, 'L': `.*?`,
}

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
		case prefix[i] == 'q': // the rest appears only for sessions, and only sessions wait
			continue
		case escapes[prefix[i]] == "":
			return nil, fmt.Errorf("log_line_prefix has the unknown escape %%%c", prefix[i])
		}
		b.WriteString(optional + escapes[prefix[i]] + optional)
		optional = ""
	}
	b.WriteString(`(\S+):  (.*)$`)
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

func (c *collector) stderr(r io.Reader, prefix string) error {
	expression, err := compile(prefix)
	if err != nil {
		return err
	}
	lines, matched, last := 0, 0, 0 // last is the line of the last wait
	err = eachLine(r, func(_ int, line string) error {
		lines++
		match := expression.FindStringSubmatch(line)
		if match == nil {
			return nil // a continuation line, or a line from the server's start
		}
		matched++
		at := func() (time.Time, error) { return c.timeOf(expression, match) }
		e := entry{at: at, severity: match[len(match)-2], text: sqlstate.ReplaceAllString(match[len(match)-1], "")}
		if i := expression.SubexpIndex("a"); i > 0 {
			e.application = match[i]
		}
		if e.severity == "DETAIL" && last == lines-1 && len(c.waits) > 0 { // a message's detail is on the next line
			w := &c.waits[len(c.waits)-1]
			w.Holders = holdersIn(e.text, w.PID)
		}
		before := len(c.waits)
		err := c.add(e)
		if len(c.waits) > before {
			last = lines
		}
		return err
	})
	if err == nil && lines > 0 && matched == 0 {
		return fmt.Errorf("no line begins with the log_line_prefix %q", prefix)
	}
	return err
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
