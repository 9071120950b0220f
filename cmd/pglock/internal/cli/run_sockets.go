package cli

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
)

// sockets are the connections that were dialled for locks. The guard of a command keeps them open as long as anything of the
// command runs, so that the server does not free the lock before.
type sockets struct {
	mu     sync.Mutex
	dialed []net.Conn
}

// remember makes a configuration remember the connections that are dialled with it.
func (s *sockets) remember(config *pgx.ConnConfig) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dialed = append(s.dialed, conn)
		}
		return conn, err
	}
}

// files returns a file for each connection that is open.
func (s *sockets) files() (open []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.dialed {
		if file, ok := job.Socket(conn); ok {
			open = append(open, file)
		}
	}
	return open
}
