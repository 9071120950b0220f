package monitor

import "encoding/json"

// Blockers are the sessions that block a waiter. In memory they are complete. The JSON form has only those that hold the
// lock, or of a waiter without any the others, and at most four: in a queue of n waiters each has all that are ahead of it as
// soft blockers, which are about n²/2 in all. [Waiter.Ahead] counts these.
type Blockers []Blocker

// maxJSONBlockers is how many blockers of a waiter the JSON form has.
const maxJSONBlockers = 4

// soft returns how many of them stand ahead in the queue without holding the lock.
func (b Blockers) soft() (n int) {
	for i := range b {
		if b[i].Kind == blockSoft {
			n++
		}
	}
	return n
}

// MarshalJSON returns the shorter JSON form.
func (b Blockers) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	kind := blockHard
	if b.soft() == len(b) {
		kind = blockSoft
	}
	short := make([]Blocker, 0, maxJSONBlockers)
	for i := range b {
		if b[i].Kind == kind && len(short) < maxJSONBlockers {
			short = append(short, b[i])
		}
	}
	return json.Marshal(short)
}
