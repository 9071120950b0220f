package doctor

import (
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// waits reports what matters most among long waits, as the monitor does.
func waits(f facts, long time.Duration) Finding {
	const check = "waits"
	headline := f.snapshot.Action()
	end := view.EndCommand(headline, f.server)
	switch longest := f.longestWait(); {
	case headline.Cycle != nil:
		return Finding{Check: check, Level: Problem, What: headline.String(), Why: "none of them can continue by itself",
			Do: end + "; and take several keys in the same order, as LockAll and LockAllTx do"}
	case longest <= long && f.snapshot.RowLocksMissing != "":
		return f.rowsUnknown(check, "it is unknown whether processes wait for locks in rows")
	case longest <= long:
		return Finding{Check: check, Level: OK, What: fmt.Sprintf("nothing has waited longer than %v", long)}
	case end == "":
		return Finding{Check: check, Level: Warning, What: headline.String(), Why: "it is unknown what is in the way; it may have ended",
			Do: "look again: pglock monitor"}
	default:
		return Finding{Check: check, Level: Warning, What: headline.String(), Why: fmt.Sprintf("a wait has lasted %v", longest.Round(time.Second)),
			Do: "see what is at the root (pglock monitor), and end it if it is stuck: " + end}
	}
}

// longestWait is the age of the oldest wait that does not belong to normal work.
func (f facts) longestWait() (longest time.Duration) {
	s := f.snapshot
	for wait := range s.Waits() {
		if !wait.Expected && wait.WaitingSince != nil {
			longest = max(longest, s.TakenAt.Sub(*wait.WaitingSince))
		}
	}
	return longest
}
