package journal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Ended asks the server which of the given sessions have ended, such as those that [Journal.Gone] returned, and returns
// their process IDs. Without sessions it sends no query. If the role may not see when sessions began, a new session with
// the process ID of an old one counts as the old one.
func Ended(ctx context.Context, db monitordb.DBTX, sessions []monitor.Session) ([]int32, error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	pids := make([]int32, len(sessions))
	for i, s := range sessions {
		pids[i] = s.PID
	}
	rows, err := monitordb.New(db).SessionStarts(ctx, pids)
	if err != nil {
		return nil, fmt.Errorf("monitor: cannot ask which sessions have ended: %w", err)
	}
	present := make(map[int32]pgtype.Timestamptz, len(rows))
	for _, row := range rows {
		present[row.Pid] = row.BackendStart
	}
	var ended []int32
	for _, s := range sessions {
		began, there := present[s.PID]
		if !there || s.Since != nil && began.Valid && !began.Time.Equal(*s.Since) {
			ended = append(ended, s.PID)
		}
	}
	return ended, nil
}
