package pgserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// Rejoin makes a server that is down a standby of the one that was promoted in its place, by pg_rewind, and returns when it
// is streaming. What only it has written is lost. Both need the setting wal_log_hints.
func (s *Server) Rejoin(ctx context.Context, primary *Server) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.rejoin(ctx, primary); err != nil {
		return fmt.Errorf("make %s a standby again: %w", s.binaries, err)
	}
	return nil
}

func (s *Server) rejoin(ctx context.Context, primary *Server) error {
	if s.running() != nil {
		return errors.New("it is running")
	}
	// Until version 16, pg_rewind takes the timeline of the primary from its latest checkpoint.
	checkpoint := s.supervisor.Command(ctx, s.binaries.program("psql"), "--no-psqlrc", "--quiet", "--command=CHECKPOINT", primary.libpq())
	checkpoint.Env = append(checkpoint.Env, "PGPASSWORD="+primary.password)
	if err := run(checkpoint); err != nil {
		return err
	}
	rewind := s.supervisor.Command(ctx, s.binaries.program("pg_rewind"), "--target-pgdata="+s.dataDir(),
		"--source-server="+primary.libpq(), "--write-recovery-conf", "--no-sync")
	rewind.Env = append(rewind.Env, "PGPASSWORD="+primary.password)
	if err := run(rewind); err != nil {
		return err
	}
	if err := s.startInstance(ctx); err != nil {
		return err
	}
	return s.awaitStandby(ctx)
}

// libpq is how PostgreSQL's own programs reach the server, without its password.
func (s *Server) libpq() string {
	return strings.Join([]string{"host=" + s.SocketDir(), "port=" + strconv.Itoa(s.Port()), "user=" + Superuser, "dbname=" + Superuser}, " ")
}
