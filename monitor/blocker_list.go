package monitor

import "encoding/json"

// Blockers are the sessions that block a waiter. In memory they are complete. The JSON form has at most 16: in a queue of n waiters
// each can have all that are ahead of it, which are about n²/2 in all.
type Blockers []Blocker

// maxBlockers is how many blockers of a waiter the JSON form has, and how many of a lock in a row are looked for.
const maxBlockers = 16

// MarshalJSON returns the shorter JSON form.
func (b Blockers) MarshalJSON() ([]byte, error) {
	return json.Marshal([]Blocker(b[:min(len(b), maxBlockers)]))
}
