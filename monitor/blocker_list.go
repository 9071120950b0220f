package monitor

import "encoding/json"

// Blockers are the sessions that block a waiter. In memory they are complete. The JSON form has only those that hold the
// lock, or of a waiter without any the others, and at most 16: in a queue of n waiters each has all that are ahead of it as
// soft blockers, which are about n²/2 in all. [Waiter.Ahead] counts these.
type Blockers []Blocker

// maxBlockers is how many blockers of a waiter the JSON form has, and how many of a lock in a row are looked for.
const maxBlockers = 16

// soft returns how many of them stand ahead in the queue without holding the lock.
func (b Blockers) soft() (n int) {
	for i := range b {
		if b[i].Kind == blockSoft {
			n++
		}
	}
	return n
}

// nearest returns those that matter: the holders or, if no holder is in the way, those ahead in the queue. Where a holder is
// in the way, those ahead wait for it too, and one that left would let nothing through.
func (b Blockers) nearest() Blockers {
	soft := b.soft()
	if soft == 0 || soft == len(b) {
		return b
	}
	hard := make(Blockers, 0, len(b)-soft)
	for i := range b {
		if b[i].Kind == blockHard {
			hard = append(hard, b[i])
		}
	}
	return hard
}

// MarshalJSON returns the shorter JSON form.
func (b Blockers) MarshalJSON() ([]byte, error) {
	near := b.nearest()
	return json.Marshal([]Blocker(near[:min(len(near), maxBlockers)]))
}
