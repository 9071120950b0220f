package monitor

import "strings"

// Guess is what a key that has no name may be: the number is one that a tool is known to use.
type Guess struct {
	// Tool is the tool, such as "Rails".
	Tool string `json:"tool"`
	// Text says what the key stands for, such as "Rails migrations of database shop". Parts of it can come from the
	// server or from whoever took the lock.
	Text string `json:"text"`
	// Confidence says how likely it is.
	Confidence Confidence `json:"confidence"`
}

// Confidence says how likely a [Guess] is.
type Confidence string

const (
	// Probably is for numbers that hardly anybody else will use by chance.
	Probably Confidence = "probably"
	// Possibly is for numbers that others may well use too, such as 1.
	Possibly Confidence = "possibly"
)

// String writes the guess as a person should read it, such as "probably Rails migrations of database shop".
func (g Guess) String() string { return string(g.Confidence) + " " + g.Text }

// Label is what a person should read for the lock: its Key, or what a key without a name probably is. It can contain
// whatever somebody else chose to call a lock.
func (l Lock) Label() string {
	if len(l.Guesses) == 0 {
		return l.Key
	}
	label := l.Guesses[0].String()
	for _, other := range l.Guesses[1:] {
		label += " or " + strings.TrimPrefix(other.String(), string(l.Guesses[0].Confidence)+" ")
	}
	return label
}
