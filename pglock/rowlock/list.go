package rowlock

import (
	"errors"
	"strconv"
	"strings"
)

// list is an array of the server while it is written, as text.
type list []byte

func (l *list) add(n int64) { *l = strconv.AppendInt(l.next(), n, 10) }

func (l *list) addBool(b bool) {
	letter := byte('f')
	if b {
		letter = 't'
	}
	*l = append(l.next(), letter)
}

// next returns the text with the separator before a further element.
func (l *list) next() []byte {
	if len(*l) == 0 {
		return append(*l, '{')
	}
	return append(*l, ',')
}

func (l list) String() string {
	if len(l) == 0 {
		return "{}"
	}
	return string(append(l, '}'))
}

// numbersOf reads an array of integers.
func numbersOf(array string) (numbers []int64, err error) {
	inside, opened := strings.CutPrefix(array, "{")
	inside, closed := strings.CutSuffix(inside, "}")
	if !opened || !closed {
		return nil, errors.New("the server's answer is no array")
	}
	if inside == "" {
		return nil, nil
	}
	numbers = make([]int64, 0, strings.Count(inside, ",")+1)
	for text := range strings.SplitSeq(inside, ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
