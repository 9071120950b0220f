package pgserver

import (
	"context"
	"fmt"
)

// Promote makes a standby a primary, and returns when it accepts writes. Its old primary is not touched.
func (s *Server) Promote(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	promote := s.supervisor.Command(ctx, s.binaries.program("pg_ctl"), "promote", "--wait", "--pgdata="+s.dataDir())
	if err := run(promote); err != nil {
		return fmt.Errorf("promote %s: %w", s.binaries, err)
	}
	return nil
}
