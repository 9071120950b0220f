package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/monitor"
)

// selectSessions qualifies every name with its schema, since the search_path is not trusted.
const selectSessions = `SELECT a.pid, a.backend_start FROM pg_catalog.pg_stat_activity AS a
WHERE a.pid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.int4[])`

// Ended asks the server which of the given sessions have ended, such as those that [Journal.Gone] returned, and returns
// their process IDs. Without sessions it sends no query. If the role may not see when sessions began, a new session with
// the process ID of an old one counts as the old one.
func Ended(ctx context.Context, db monitor.DBTX, sessions []monitor.Session) ([]int32, error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	pids := make([]int32, len(sessions))
	for i, s := range sessions {
		pids[i] = s.PID
	}
	rows, err := db.Query(ctx, selectSessions, pids)
	if err != nil {
		return nil, fmt.Errorf("monitor: cannot ask which sessions have ended: %w", err)
	}
	present := map[int32]*time.Time{}
	var pid int32
	var since *time.Time
	_, err = pgx.ForEachRow(rows, []any{&pid, &since}, func() error {
		present[pid] = since
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("monitor: cannot ask which sessions have ended: %w", err)
	}
	var ended []int32
	for _, s := range sessions {
		began, there := present[s.PID]
		if !there || s.Since != nil && began != nil && !began.Equal(*s.Since) {
			ended = append(ended, s.PID)
		}
	}
	return ended, nil
}
