package pgserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Standby makes a hot standby of s, with the same settings and password, and returns when it is streaming. It is a
// separate Server: [Server.Stop] must be called on both, in any order.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	standby, err := newServer(s.password)
	if err != nil {
		return nil, fmt.Errorf("start a standby: %w", err)
	}
	if err := standby.follow(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("start a standby of %s: %w", s.binaries, err), standby.Stop())
	}
	return standby, nil
}

func (s *Server) follow(ctx context.Context, primary *Server) error {
	backup := s.Command(ctx, s.binaries.program("pg_basebackup"), "--pgdata="+s.dataDir(),
		"--host="+primary.SocketDir(), "--port="+strconv.Itoa(primary.Port()), "--username="+Superuser, "--no-password",
		"--checkpoint=fast", "--no-sync", "--wal-method=stream", "--write-recovery-conf")
	backup.Env = append(backup.Env, "PGPASSWORD="+s.password)
	if err := run(backup); err != nil {
		return err
	}
	s.following = true
	defer func() { s.following = false }()
	return s.Up(ctx)
}
