package monitor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Dictionary finds the names that keys are the hashes of. A hash cannot be reversed, so a dictionary is made from
// expected names. The zero value is empty. A Dictionary is immutable and may be used from many goroutines.
//
// For keys of pglock a match is certain: another name with the same 64 bits of SHA-256 does not occur by chance. The first ten thousand names are also tried with the hash functions of other tools, whose matches are
// guesses.
type Dictionary struct {
	size     int
	byNumber map[int64]string
	guesses  map[driver.KeyID][]Guess
}

const (
	// MaxNames is the most names that a dictionary can have. That many use about 100 MB.
	MaxNames = 1_000_000
	// maxForOtherTools is how many names are also hashed as other tools do, which takes ten times the memory.
	maxForOtherTools = 10_000
)

// NewDictionary makes a dictionary from names, as [pglock.NewKey] takes them. Names beyond the first [MaxNames] are
// left out.
func NewDictionary(names ...string) *Dictionary {
	n := &Dictionary{}
	for _, name := range names[:min(len(names), MaxNames)] {
		n.add(name)
	}
	return n
}

// byteOrderMark is what some editors on Windows write at the beginning of a file.
const byteOrderMark = "\ufeff"

// ReadDictionary makes a dictionary from a text with a name or a pattern on each line. Space around it does not
// count, nor do empty lines and those that begin with #. A line is read as [pglock.ParseKey] reads a key: @@x is the
// name "@x", while numbers (@42) have no name and are an error.
//
// A pattern has ranges of numbers in braces and means every name with one number of each: shard:{1..3} for three
// names. Braces without such a range, as in {a..b} or x:{1.., are part of a name. Leading zeros keep their width:
// {08..10} is 08, 09, 10. More than [MaxNames] names are an error, and so is a line beyond 64 KB. Errors say which
// line they are about.
func ReadDictionary(r io.Reader) (*Dictionary, error) {
	n := &Dictionary{}
	lines, number := bufio.NewScanner(r), 1
	for ; lines.Scan(); number++ {
		line := lines.Text()
		if number == 1 {
			line = strings.TrimPrefix(line, byteOrderMark)
		}
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := n.addLine(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d is longer than %d bytes, the maximum", number, bufio.MaxScanTokenSize-1)
	} else if err != nil {
		return nil, fmt.Errorf("line %d: %w", number, err)
	}
	return n, nil
}

func (n *Dictionary) addLine(line string) error {
	if !utf8.ValidString(line) {
		return errors.New("not UTF-8")
	}
	key, err := pglock.ParseKey(line)
	if err != nil {
		return err
	}
	if key.Name() == "" {
		return fmt.Errorf("%s is a number, and has no name (@@ begins a name with @)", line)
	}
	pattern, err := parsePattern(key.Name())
	if err != nil {
		return err
	}
	if size := pattern.size(); size > MaxNames-int64(n.size) {
		return fmt.Errorf("with %q there are more than %d names, the maximum (use smaller ranges)", line, MaxNames)
	}
	for name := range pattern.names() {
		n.add(name)
	}
	return nil
}

func (n *Dictionary) add(name string) {
	if n.byNumber == nil {
		n.byNumber, n.guesses = map[int64]string{}, map[driver.KeyID][]Guess{}
	}
	n.byNumber[pglock.NewKey(name).Int64()] = name
	if n.size++; n.size <= maxForOtherTools {
		for _, tool := range namedKeys {
			id := driver.KeyID{Space: tool.space, Number: tool.number(name)}
			n.guesses[id] = append(n.guesses[id], Guess{tool.name, fmt.Sprintf("%s %q", tool.what, name), ConfidenceProbable})
		}
	}
}

// Len is the number of names.
func (n *Dictionary) Len() int { return n.size }

// name returns the name whose hash is the key.
func (n *Dictionary) name(id identity) (name string, ok bool) {
	if id.space() != SpaceBigint {
		return "", false
	}
	name, ok = n.byNumber[id.number]
	return name, ok
}
