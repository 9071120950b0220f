package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/pooled"
	"github.com/pglock-toolkit/pglock/monitor"
)

// poolerFlags are the poolers that are asked for their clients.
type poolerFlags struct {
	dsns    []string
	configs []*pgconn.Config
	silent  map[*pgconn.Config]bool // those that did not answer at first
}

func (f *poolerFlags) addTo(cmd *cobra.Command, what string) {
	cmd.Flags().StringArrayVar(&f.dsns, "pgbouncer", nil, what+" of the PgBouncer whose console has this `URL`; may be repeated")
	complete(cmd, "pgbouncer")
}

// resolve reads the connection strings. It does not connect.
func (f *poolerFlags) resolve(cmd *cobra.Command) error {
	for _, value := range f.dsns {
		if value == "" {
			return misuse(cmd, "--pgbouncer is empty")
		}
		config, warning, err := parse(value)
		if err != nil {
			return misuse(cmd, "--pgbouncer: %w", err)
		}
		if warning != "" {
			say(cmd.ErrOrStderr(), "%s", warning)
		}
		if config.ConnConfig.ConnectTimeout == 0 {
			config.ConnConfig.ConnectTimeout = connectTimeout
		}
		f.configs = append(f.configs, &config.ConnConfig.Config)
	}
	return nil
}

// queues asks each pooler once for the clients that wait for a session. silent has the errors of those that do not answer.
func (f *poolerFlags) queues(ctx context.Context) (all []pooled.Queue, silent []error, err error) {
	for _, config := range f.configs {
		p := pooled.New(config)
		queues, err := askPooler(ctx, p.Queues)
		p.Close(ctx)
		switch {
		case endsCommand(ctx, err):
			return nil, nil, &exit{codeUnavailable, err}
		case err != nil:
			silent = append(silent, err)
		}
		all = append(all, queues...)
	}
	return all, silent, nil
}

// askPooler bounds how long a pooler is waited for.
func askPooler[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return ask(ctx)
}

// endsCommand reports whether an error of a pooler ends the command. The server's answer matters more than that of a pooler
// that is down.
func endsCommand(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, pooled.ErrNotConsole))
}

// clients names the clients behind the sessions of poolers. A nil clients names none.
type clients struct {
	poolers []*pooled.Pooler
	before  []pooled.Links // of each pooler, after the last snapshot
}

// connect asks each pooler for the first time. It returns nil if there is none. Of a pooler that does not answer it says so
// once; such a pooler is asked again after each snapshot.
func (f *poolerFlags) connect(ctx context.Context) (*clients, error) {
	if len(f.configs) == 0 {
		return nil, nil
	}
	c := &clients{}
	for _, config := range f.configs {
		p := pooled.New(config)
		c.poolers = append(c.poolers, p)
		links, err := f.firstLook(ctx, config, p)
		if err != nil {
			c.close(ctx)
			return nil, &exit{codeUnavailable, err}
		}
		c.before = append(c.before, links)
	}
	return c, nil
}

// firstLook returns no links if the pooler does not answer.
func (f *poolerFlags) firstLook(ctx context.Context, config *pgconn.Config, p *pooled.Pooler) (pooled.Links, error) {
	if f.silent[config] {
		return nil, nil
	}
	links, err := askPooler(ctx, p.Look)
	if err == nil || endsCommand(ctx, err) {
		return links, err
	}
	if f.silent == nil {
		f.silent = map[*pgconn.Config]bool{}
	}
	f.silent[config] = true
	say(os.Stderr, "%s; its sessions keep the address of the pooler", oneLine(err.Error()))
	return nil, nil
}

// poolerTimeout bounds what a pooler that does not answer costs each snapshot.
const poolerTimeout = 2 * time.Second

// name names the clients of a snapshot that has just been taken. The clients of a pooler that does not answer have no
// name.
func (c *clients) name(ctx context.Context, s *monitor.Snapshot) {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, poolerTimeout)
	defer cancel()
	for i, p := range c.poolers {
		after, err := p.Look(ctx)
		if err == nil {
			pooled.Name(s, c.before[i], after)
		}
		c.before[i] = after
	}
}

func (c *clients) close(ctx context.Context) {
	if c == nil {
		return
	}
	for _, p := range c.poolers {
		p.Close(ctx)
	}
}
