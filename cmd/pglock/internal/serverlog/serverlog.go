// Package serverlog finds the waits for advisory locks that PostgreSQL has logged (log_lock_waits).
//
// It reads csvlog, jsonlog, and stderr with a known log_line_prefix. A log without any severity in English is an error: its
// messages cannot be recognized, and a report without them would be silently wrong.
//
// Any role can write to the log, with RAISE, or a query with an error. So a message is believed only if what the server
// adds to it fits, no message ends the reading, and the memory is bounded.
package serverlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Wait is a message about a wait for an advisory lock.
type Wait struct {
	// At is when it was logged; the wait had lasted for Waited by then.
	At     time.Time
	Waited time.Duration
	PID    int32
	// Application is application_name; empty if the log does not have it.
	Application string
	// Holders are the processes that held the lock when a wait was logged that continued, or ended in a deadlock; 0 is a
	// prepared transaction.
	Holders []int32
	// Acquired says that the wait ended with the lock. Otherwise it continued, or ended without the lock.
	Acquired bool
	// Mode is PostgreSQL's name of the mode: ExclusiveLock or ShareLock.
	Mode string
	// The lock, as in pg_locks.
	DatabaseOID    uint32
	ClassID, ObjID uint32
	Objsubid       int16
}

// Number is the key as a bigint; for pairs class<<32 | object.
func (w Wait) Number() int64 { return int64(w.ClassID)<<32 | int64(w.ObjID) }

// ErrLanguage is matched by the error of a log that is not in English.
var ErrLanguage = errors.New("its messages are not in English (lc_messages), so waits cannot be found in it")

// Format is how a log is written.
type Format string

const (
	// Stderr is for lines with log_line_prefix.
	Stderr Format = "stderr"
	// CSV and JSON are for the formats of log_destination csvlog and jsonlog.
	CSV  Format = "csv"
	JSON Format = "json"
)

// FormatOf guesses the format from the name of a file.
func FormatOf(name string) Format {
	switch {
	case strings.HasSuffix(name, ".csv"):
		return CSV
	case strings.HasSuffix(name, ".json"):
		return JSON
	}
	return Stderr
}

// Bounds of what is kept of a log.
const (
	maxLine        = 4 << 20  // of a line of jsonlog or a record of csvlog; a longer one is skipped
	maxStderrLine  = 64 << 10 // the rest of a longer one is ignored
	maxWaits       = 20_000
	maxHolders     = 8
	maxApplication = 100
)

// Log is what was read.
type Log struct {
	Waits   []Wait
	Skipped Skipped
}

// Skipped counts what was left out.
type Skipped struct {
	Unreadable int // lines that are not as the format requires, or too long
	Misfit     int // lines that begin with the given log_line_prefix, and then have something else before the severity
	Doubtful   int // messages like those about waits that, by the rest of the line, the server cannot have written
	Translated int // messages that may be about waits, in another language
	Beyond     int // waits beyond the number that is kept
}

// String says what was skipped; it is empty if nothing was.
func (s Skipped) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{s.Unreadable, "that cannot be read"}, {s.Misfit, "that have more than the log_line_prefix before the severity"}, {s.Doubtful, "that a role has written in the form of the server's messages"},
		{s.Translated, "that may be about waits, but not in English (lc_messages)"},
		{s.Beyond, fmt.Sprintf("about waits beyond the first %d", maxWaits)}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "skipped lines: " + strings.Join(parts, ", ")
}

// Read returns the waits in a log. prefix is log_line_prefix, for Stderr only. zone applies to times whose zone
// abbreviation is ambiguous; if it is nil, and all waits have such a time, that is an error.
func Read(r io.Reader, format Format, prefix string, zone *time.Location) (Log, error) {
	c := &collector{zone: zone}
	var err error
	switch format {
	case CSV:
		err = c.csv(r)
	case JSON:
		err = c.json(r)
	default:
		err = c.stderr(r, prefix)
	}
	switch {
	case err != nil:
		return Log{}, err
	case c.lines == 0 && c.Skipped.Unreadable > 0:
		return Log{}, fmt.Errorf("not a %slog: none of its %d lines is", format, c.Skipped.Unreadable)
	case c.lines > 0 && c.known == 0:
		return Log{}, ErrLanguage
	case len(c.Waits) == 0 && c.noTime != nil:
		return Log{}, c.noTime
	}
	return c.Log, nil
}

// collector collects the waits in the messages of a log.
type collector struct {
	Log
	zone   *time.Location
	lines  int       // messages
	known  int       // messages whose severity is an English word
	first  time.Time // of the first message
	noTime error     // why a wait has no time
}

// severities are those of English messages that other languages translate; LOG is the same in most.
var severities = map[string]bool{"LOG": true, "ERROR": true, "FATAL": true, "PANIC": true, "WARNING": true, "NOTICE": true,
	"INFO": true, "DEBUG": true, "DEBUG1": true, "DEBUG2": true, "DEBUG3": true, "DEBUG4": true, "DEBUG5": true,
	"DETAIL": true, "HINT": true, "QUERY": true, "CONTEXT": true, "LOCATION": true, "STATEMENT": true, "BACKTRACE": true}

var (
	message = regexp.MustCompile(`^process (\d+) (still waiting for|acquired|detected deadlock while waiting for) (\w+) on advisory lock ` +
		`\[(\d+),(\d+),(\d+),(\d+)\] after (\d{1,12})\.(\d{3}) ms$`)
	// languageIndependent matches the parts of such a message that every translation keeps, in some order: the mode, the lock,
	// and the time.
	languageIndependent = []*regexp.Regexp{regexp.MustCompile(`\b(Exclusive|Share)Lock\b`), regexp.MustCompile(`\[\d+,\d+,\d+,\d+\]`),
		regexp.MustCompile(`\d[.,]\d{3}`)}
	// others matches English messages that have all these parts too, but no other information.
	others = regexp.MustCompile(`^(process \d+ (failed to acquire|avoided deadlock)|` +
		`(statement|duration|execute|parse|bind)\b)`)
)

// foreign reports whether a message is about a wait for an advisory lock, in another language.
func foreign(text string) bool {
	const longest = 1000 // bytes of such a message
	return len(text) < longest && !others.MatchString(text) &&
		!slices.ContainsFunc(languageIndependent, func(r *regexp.Regexp) bool { return !r.MatchString(text) })
}

// raised reports whether a message was made by a procedural language, as RAISE does: its context then begins with the
// function. That of a message of the server begins with the SQL statement in the function, or with an assignment or the
// like, whose expression PL/pgSQL evaluates without a statement. first says that the context is only its first line.
func raised(context string, first bool) bool {
	if !strings.HasPrefix(context, "PL/") {
		return false
	}
	function, isPgSQL := strings.CutPrefix(context, "PL/pgSQL function ")
	// A quoted name of a function may contain a line's end, and then anything before it.
	return !isPgSQL || strings.Contains(function, " at RAISE") || first && strings.Contains(function, `"`)
}

// entry is a message with its other fields.
type entry struct {
	at                                           func() (time.Time, error)
	severity, text, detail, context, application string
	pid                                          string                    // empty if the log does not have it
	started                                      func() (time.Time, error) // of the session; nil if the log does not have it
}

// holdersDetail matches the detail of a message about a wait that continues, or has ended in a deadlock.
var holdersDetail = regexp.MustCompile(`^Process(?:es)? holding the lock: (\d+(?:, \d+)*)\. Wait queue: (\d+(?:, \d+)*)?\.`)

// holdersIn returns the processes that a detail names as holders, if the detail is about a wait of this process. One that has
// ended in a deadlock has left the queue.
func holdersIn(detail string, waiter int32) []int32 {
	match := holdersDetail.FindStringSubmatch(detail)
	if match == nil || match[2] != "" && !slices.Contains(strings.Split(match[2], ", "), strconv.Itoa(int(waiter))) {
		return nil
	}
	var holders []int32
	for _, text := range strings.Split(match[1], ", ") {
		pid, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil
		}
		if holders = append(holders, int32(pid)); len(holders) == maxHolders {
			break
		}
	}
	return holders
}

// add adds a message, and reports whether it is about a wait that is believed.
func (c *collector) add(e entry) bool {
	c.lines++
	if severities[e.severity] {
		c.known++
	}
	if c.first.IsZero() {
		c.first, _ = e.at() // or that of the next message
	}
	if severities[e.severity] && e.severity != "LOG" {
		return false
	}
	match := message.FindStringSubmatch(e.text)
	switch {
	case match == nil && foreign(e.text) && !raised(e.context, false):
		c.Skipped.Translated++
		return false
	case match == nil:
		return false
	case e.pid != "" && e.pid != match[1], e.severity != "LOG", raised(e.context, false):
		c.Skipped.Doubtful++
		return false
	}
	w, err := waitIn(match)
	if err != nil {
		c.Skipped.Doubtful++
		return false
	}
	if w.At, err = e.at(); err != nil {
		c.noTime = err
		c.Skipped.Unreadable++
		return false
	}
	if !c.bound(&w, e) {
		c.Skipped.Doubtful++
		return false
	}
	if len(c.Waits) == maxWaits {
		c.Skipped.Beyond++
		return false
	}
	w.Application = strings.Clone(e.application[:min(len(e.application), maxApplication)])
	w.Holders = holdersIn(e.detail, w.PID)
	c.Waits = append(c.Waits, w)
	return true
}

// bound reports whether the session is as old as the wait. Where the log does not have the session's start, it cuts the
// part of the wait before the log.
func (c *collector) bound(w *Wait, e entry) bool {
	if e.started == nil {
		w.Waited = max(0, min(w.Waited, w.At.Sub(c.first)))
		return true
	}
	const rounding = time.Second // of the start
	started, err := e.started()
	return err == nil && w.Waited <= w.At.Sub(started)+rounding
}

// waitIn returns the wait in a message, without what its line has besides.
func waitIn(match []string) (w Wait, err error) {
	number := func(i, bits int) uint64 {
		n, failed := strconv.ParseUint(match[i], 10, bits)
		err = errors.Join(err, failed)
		return n
	}
	w = Wait{PID: int32(number(1, 31)), Acquired: match[2] == "acquired", Mode: strings.Clone(match[3]),
		DatabaseOID: uint32(number(4, 32)), ClassID: uint32(number(5, 32)), ObjID: uint32(number(6, 32)), Objsubid: int16(number(7, 2)),
		Waited: time.Duration(number(8, 40))*time.Millisecond + time.Duration(number(9, 10))*time.Microsecond}
	if w.Objsubid != 1 && w.Objsubid != 2 {
		err = errors.Join(err, fmt.Errorf("no advisory lock has objsubid %d", w.Objsubid))
	}
	return w, err
}

// csv reads csvlog: the first column is the time, the 4th the process, the 9th the session's start, the 12th the severity,
// the 14th the message, the 15th its detail, the 19th its context, the 23rd the application.
func (c *collector) csv(r io.Reader) error {
	const least, columns = 14, 23
	return eachLine(r, maxLine, true, func(line []byte, cut bool) {
		row, ok := fields(line, columns)
		if cut || !ok || len(row) < least {
			c.Skipped.Unreadable++
			return
		}
		e := entry{at: c.timeIn(row[0]), pid: row[3], started: c.timeIn(row[8]), severity: row[11], text: row[13]}
		if len(row) == columns {
			e.detail, e.context, e.application = row[14], row[18], row[22]
		}
		c.add(e)
	})
}

// fields returns the first fields of a record of CSV. Package encoding/csv would return all, and there can be millions.
func fields(line []byte, most int) (row []string, ok bool) {
	for len(row) < most {
		var field []byte
		if rest, quoted := bytes.CutPrefix(line, []byte(`"`)); quoted {
			for doubled := true; doubled; rest, doubled = bytes.CutPrefix(rest, []byte(`"`)) {
				part, after, closed := bytes.Cut(rest, []byte(`"`))
				if !closed {
					return nil, false
				}
				field, rest = append(append(field, part...), '"'), after
			}
			field, line = field[:len(field)-1], rest // the last one is not doubled
		} else {
			n := bytes.IndexByte(line, ',')
			if n < 0 {
				n = len(line)
			}
			field, line = line[:n], line[n:]
		}
		row = append(row, string(field))
		if len(line) == 0 {
			return row, true
		}
		if line, ok = bytes.CutPrefix(line, []byte(",")); !ok {
			return nil, false
		}
	}
	return row, true
}

func (c *collector) json(r io.Reader) error {
	return eachLine(r, maxLine, false, func(text []byte, cut bool) {
		var line struct {
			Timestamp   string      `json:"timestamp"`
			PID         json.Number `json:"pid"`
			Started     string      `json:"session_start"`
			Severity    string      `json:"error_severity"`
			Message     string      `json:"message"`
			Detail      string      `json:"detail"`
			Context     string      `json:"context"`
			Application string      `json:"application_name"`
		}
		if cut || json.Unmarshal(text, &line) != nil {
			c.Skipped.Unreadable++
			return
		}
		e := entry{at: c.timeIn(line.Timestamp), pid: line.PID.String(), severity: line.Severity, text: line.Message,
			detail: line.Detail, context: line.Context, application: line.Application}
		if line.Started != "" {
			e.started = c.timeIn(line.Started)
		}
		c.add(e)
	})
}

func (c *collector) timeIn(text string) func() (time.Time, error) {
	return func() (time.Time, error) { return parseTime(text, c.zone) }
}

// eachLine calls do with the beginning of each line that is not empty, up to a number of bytes; cut says that there is
// more. If quoted, a line does not end within double quotes, as in CSV, not even beyond that number: what looks like a
// line there was written by a role.
func eachLine(r io.Reader, most int, quoted bool, do func(line []byte, cut bool)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	cut, inQuotes := false, false
	for {
		piece, err := in.ReadSlice('\n')
		if quoted && bytes.Count(piece, []byte(`"`))%2 == 1 {
			inQuotes = !inQuotes
		}
		kept := min(len(piece), most-len(line))
		line, cut = append(line, piece[:kept]...), cut || kept < len(piece)
		switch {
		case errors.Is(err, bufio.ErrBufferFull), err == nil && inQuotes:
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimSpace(line)) > 0 {
			do(line, cut || inQuotes)
		}
		if err != nil {
			return nil
		}
		line, cut = line[:0], false
	}
}

// parseTime parses a time as PostgreSQL logs it. Of the zone abbreviations only UTC is unambiguous.
func parseTime(text string, zone *time.Location) (time.Time, error) {
	day, abbreviation := text, ""
	if i := strings.LastIndexByte(text, ' '); i > len("2006-01-02") {
		day, abbreviation = text[:i], text[i+1:]
	}
	at, err := time.Parse("2006-01-02 15:04:05", day)
	if err != nil {
		return at, fmt.Errorf("%q is not a time", text)
	}
	switch {
	case abbreviation == "UTC" || abbreviation == "GMT":
		return at, nil
	case zone != nil:
		return time.ParseInLocation("2006-01-02 15:04:05", day, zone)
	case strings.HasPrefix(abbreviation, "+") || strings.HasPrefix(abbreviation, "-"):
		for _, layout := range []string{"-07", "-0700", "-07:00"} {
			if offset, err := time.Parse(layout, abbreviation); err == nil {
				_, seconds := offset.Zone()
				return at.Add(-time.Duration(seconds) * time.Second), nil
			}
		}
	}
	return at, fmt.Errorf("the log's times are in zone %q, which is ambiguous: name the zone with --log-timezone", abbreviation)
}
