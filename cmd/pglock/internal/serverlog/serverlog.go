// Package serverlog finds the waits for advisory locks that PostgreSQL has logged (log_lock_waits).
//
// It reads csvlog, jsonlog, and stderr with a known log_line_prefix. Messages in a language other than English are an
// error: they cannot be recognized, and a report without them would be silently wrong.
package serverlog

import (
	"bufio"
	"encoding/csv"
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
	// Holders are the processes that held the lock when a continuing wait was logged; 0 is a prepared transaction.
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

// maxLine bounds the length of a line; a longer one is an error.
const maxLine = 16 << 20

// Read returns the waits in a log. prefix is log_line_prefix, for Stderr only. zone applies to times whose zone
// abbreviation is ambiguous; if it is nil, such a time is an error.
func Read(r io.Reader, format Format, prefix string, zone *time.Location) ([]Wait, error) {
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
	if err == nil && c.lines > 0 && c.known == 0 {
		err = ErrLanguage
	}
	if err != nil {
		return nil, err
	}
	return c.waits, nil
}

// collector collects the waits in the messages of a log.
type collector struct {
	zone  *time.Location
	waits []Wait
	lines int // messages
	known int // messages whose severity is an English word
}

// severities are those of English messages that other languages translate; LOG is the same in most.
var severities = map[string]bool{"LOG": true, "ERROR": true, "FATAL": true, "PANIC": true, "WARNING": true, "NOTICE": true,
	"INFO": true, "DEBUG": true, "DEBUG1": true, "DEBUG2": true, "DEBUG3": true, "DEBUG4": true, "DEBUG5": true,
	"DETAIL": true, "HINT": true, "QUERY": true, "CONTEXT": true, "LOCATION": true, "STATEMENT": true, "BACKTRACE": true}

var (
	message = regexp.MustCompile(`^process (\d+) (still waiting for|acquired) (\w+) on advisory lock ` +
		`\[(\d+),(\d+),(\d+),(\d+)\] after (\d+)\.(\d{3}) ms`)
	// languageIndependent matches the parts of such a message that every translation keeps, in some order: the mode, the lock,
	// and the time.
	languageIndependent = []*regexp.Regexp{regexp.MustCompile(`\b(Exclusive|Share)Lock\b`), regexp.MustCompile(`\[\d+,\d+,\d+,\d+\]`),
		regexp.MustCompile(`\d[.,]\d{3}`)}
	// others matches English messages that have all these parts too, but no other information.
	others = regexp.MustCompile(`^(process \d+ (failed to acquire|detected deadlock|avoided deadlock)|` +
		`(statement|duration|execute|parse|bind)\b)`)
)

// foreign reports whether a message is about a wait for an advisory lock, in another language.
func foreign(text string) bool {
	return !others.MatchString(text) && !slices.ContainsFunc(languageIndependent, func(r *regexp.Regexp) bool { return !r.MatchString(text) })
}

// entry is a message with its other fields.
type entry struct {
	at                                  func() (time.Time, error)
	severity, text, detail, application string
}

// holdersDetail matches the detail of a message about a wait that continues.
var holdersDetail = regexp.MustCompile(`^Process(?:es)? holding the lock: (\d+(?:, \d+)*)\. Wait queue: (\d+(?:, \d+)*)\.`)

// holdersIn returns the processes that a detail names as holders, if the detail is about a wait of this process.
func holdersIn(detail string, waiter int32) []int32 {
	match := holdersDetail.FindStringSubmatch(detail)
	if match == nil || !slices.Contains(strings.Split(match[2], ", "), strconv.Itoa(int(waiter))) {
		return nil
	}
	var holders []int32
	for _, text := range strings.Split(match[1], ", ") {
		pid, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil
		}
		holders = append(holders, int32(pid))
	}
	return holders
}

// add adds a message. It recognizes other languages by their severities, and by the parts that every translation keeps.
func (c *collector) add(e entry) error {
	text := e.text
	c.lines++
	if severities[e.severity] {
		c.known++
	}
	match := message.FindStringSubmatch(text)
	switch {
	case match == nil && foreign(text):
		return fmt.Errorf("%w: %q", ErrLanguage, text)
	case match == nil:
		return nil
	}
	when, err := e.at()
	if err != nil {
		return err
	}
	numbers := make([]uint64, 0, 7)
	for _, i := range []int{1, 4, 5, 6, 7, 8, 9} {
		n, err := strconv.ParseUint(match[i], 10, 40)
		if err != nil {
			return fmt.Errorf("a number out of range: %q", text)
		}
		numbers = append(numbers, n)
	}
	c.waits = append(c.waits, Wait{At: when, PID: int32(numbers[0]), Application: e.application,
		Holders: holdersIn(e.detail, int32(numbers[0])), Acquired: match[2] == "acquired", Mode: match[3],
		DatabaseOID: uint32(numbers[1]), ClassID: uint32(numbers[2]), ObjID: uint32(numbers[3]), Objsubid: int16(numbers[4]),
		Waited: time.Duration(numbers[5])*time.Millisecond + time.Duration(numbers[6])*time.Microsecond})
	return nil
}

// csv reads csvlog: the first column is the time, the 12th the severity, the 14th the message, the 15th its detail, the
// 23rd the application.
func (c *collector) csv(r io.Reader) error {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	for {
		row, err := rows.Read()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("not a csvlog: %w", err)
		case len(row) < 14:
			line, _ := rows.FieldPos(0)
			return fmt.Errorf("not a csvlog: line %d has %d columns", line, len(row))
		}
		e := entry{at: func() (time.Time, error) { return parseTime(row[0], c.zone) }, severity: row[11], text: row[13]}
		if len(row) > 22 {
			e.detail, e.application = row[14], row[22]
		}
		if err := c.add(e); err != nil {
			return err
		}
	}
}

func (c *collector) json(r io.Reader) error {
	return eachLine(r, func(number int, text string) error {
		var line struct {
			Timestamp   string `json:"timestamp"`
			Severity    string `json:"error_severity"`
			Message     string `json:"message"`
			Detail      string `json:"detail"`
			Application string `json:"application_name"`
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			return fmt.Errorf("not a jsonlog: line %d: %w", number, err)
		}
		at := func() (time.Time, error) { return parseTime(line.Timestamp, c.zone) }
		return c.add(entry{at, line.Severity, line.Message, line.Detail, line.Application})
	})
}

// eachLine calls do with each line that is not empty.
func eachLine(r io.Reader, do func(number int, line string) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := do(number, lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
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
