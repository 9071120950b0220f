package doctor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// waits reports what matters most among long waits, as the monitor does.
func waits(f facts, long time.Duration) Finding {
	const check = "waits"
	headline := f.snapshot.Action()
	end := cmp.Or(view.EndCommand(headline, f.server), "see who waits for whom: pglock monitor")
	switch longest := f.longestWait(); {
	case headline.Cycle != nil:
		return Finding{Check: check, Level: Problem, What: headline.String(), Why: "none of them can continue by itself",
			Do: end + "; and take several keys in the same order, as LockAll and LockAllTx do"}
	case longest <= long && f.snapshot.RowLocksMissing != "":
		return f.rowsUnknown(check, "it is unknown whether processes wait for locks in rows")
	case longest <= long:
		return Finding{Check: check, Level: OK, What: fmt.Sprintf("nothing has waited longer than %v", long)}
	default:
		return Finding{Check: check, Level: Warning, What: headline.String(), Why: fmt.Sprintf("a wait has lasted %v", longest.Round(time.Second)), Do: end}
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
