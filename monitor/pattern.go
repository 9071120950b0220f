package monitor

import (
	"fmt"
	"iter"
	"math"
	"regexp"
	"strconv"
)

// pattern is a name with ranges of numbers in it: the text before each range, and the text after the last.
type pattern struct {
	before []string
	ranges []numberRange
	end    string
}

type numberRange struct {
	first, last int64
	width       int // the number of digits, if written with leading zeros
}

var rangeInBraces = regexp.MustCompile(`\{([0-9]+)\.\.([0-9]+)\}`)

func parsePattern(text string) (pattern, error) {
	var p pattern
	behind := 0
	for _, at := range rangeInBraces.FindAllStringSubmatchIndex(text, -1) {
		r, err := parseRange(text[at[2]:at[3]], text[at[4]:at[5]])
		if err != nil {
			return p, fmt.Errorf("%s: %w", text[at[0]:at[1]], err)
		}
		p.before, p.ranges = append(p.before, text[behind:at[0]]), append(p.ranges, r)
		behind = at[1]
	}
	p.end = text[behind:]
	return p, nil
}

func parseRange(first, last string) (r numberRange, err error) {
	if r.first, err = strconv.ParseInt(first, 10, 64); err != nil {
		return r, err
	}
	if r.last, err = strconv.ParseInt(last, 10, 64); err != nil {
		return r, err
	}
	if r.first > r.last {
		return r, fmt.Errorf("the range counts down")
	}
	if first[0] == '0' || last[0] == '0' {
		r.width = max(len(first), len(last))
	}
	return r, nil
}

// size returns the number of names, at most math.MaxInt64.
func (p pattern) size() int64 {
	size := int64(1)
	for _, r := range p.ranges {
		n := r.last - r.first + 1
		if n <= 0 || size > math.MaxInt64/n {
			return math.MaxInt64
		}
		size *= n
	}
	return size
}

// names returns an iterator over all names. The last range varies fastest.
func (p pattern) names() iter.Seq[string] {
	return func(yield func(string) bool) { p.expand("", 0, yield) }
}

func (p pattern) expand(prefix string, i int, yield func(string) bool) bool {
	if i == len(p.ranges) {
		return yield(prefix + p.end)
	}
	r := p.ranges[i]
	for n := int64(0); n <= r.last-r.first; n++ {
		if !p.expand(fmt.Sprintf("%s%s%0*d", prefix, p.before[i], r.width, r.first+n), i+1, yield) {
			return false
		}
	}
	return true
}
