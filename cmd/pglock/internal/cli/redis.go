package cli

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/secretfile"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// server is the server on which a command takes its lock.
type server struct {
	database // or a Redis, without secrets
	locker   *pglock.Locker
	clients  []io.Closer // what the locker uses but does not close
}

// close closes the locker and the resources that it uses.
func (s *server) close() error {
	var err error
	if s.locker != nil {
		err = s.locker.Close(context.Background())
	}
	for _, client := range s.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

// redisServer is one Redis, or the majority of several.
func (r *run) redisServer(cmd *cobra.Command) (*server, error) {
	for _, flag := range []string{"dsn", "trust-owner", "rows", "allow-pooler", "allow-standby"} {
		if cmd.Flags().Changed(flag) {
			return nil, misuse(cmd, "%s contradicts --%s, which is for PostgreSQL", r.redisFrom, flag)
		}
	}
	s := &server{}
	if err := r.openRedis(s); err != nil {
		err = errors.Join(err, s.close())
		return nil, misuse(cmd, "%s: %s", r.redisFrom, strings.TrimPrefix(err.Error(), "redisfallback: "))
	}
	return s, nil
}

// redisVariable is the environment variable with the URLs of Redis. Unlike the command line, it is not shown to others.
const redisVariable = "PGLOCK_REDIS_URL"

// findRedis returns the URLs of Redis: from --redis, from a file, or from the environment unless another database is
// named. It returns none if the lock is in PostgreSQL.
func (r *run) findRedis(cmd *cobra.Command) error {
	file := cmd.Flags().Changed("redis-file")
	switch {
	case len(r.redis) > 0 && file:
		return misuse(cmd, "--redis contradicts --redis-file")
	case len(r.redis) > 0:
		r.redisFrom = "--redis"
	case file:
		lines, err := secretfile.Lines(r.redisFile)
		if err != nil {
			return misuse(cmd, "--redis-file: %w", err)
		}
		r.redisFrom, r.redis = "--redis-file "+r.redisFile, nil
		for _, line := range lines {
			r.redis = append(r.redis, strings.Fields(line.Text)...)
		}
		if len(r.redis) == 0 {
			return misuse(cmd, "--redis-file %s: there is no URL in it", r.redisFile)
		}
	case !cmd.Flags().Changed("dsn") && !r.rows:
		r.redisFrom, r.redis = redisVariable, strings.Fields(os.Getenv(redisVariable))
	}
	return nil
}

func (r *run) openRedis(s *server) error {
	logging.Disable() // go-redis also returns the errors that it would log to stderr
	all, err := redisfallback.ParseURLs(r.redis...)
	if err != nil {
		return err
	}
	var targets []string
	for i, client := range all {
		s.clients = append(s.clients, client)
		targets = append(targets, redisTarget(r.redis[i]))
	}
	s.target = strings.Join(targets, ",")
	backend, err := redisfallback.NewBackend(all)
	if err != nil {
		return err
	}
	s.locker, err = pglock.NewWithBackend(backend, r.commonOptions()...)
	return err
}

// redisTarget returns the URL of a Redis without secrets.
func redisTarget(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "redis"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
