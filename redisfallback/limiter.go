package redisfallback

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/ratestore"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

var (
	takeRate   = load("take_rate", 1)
	returnRate = load("return_rate", 1)
)

// NewLimiter returns a rate limiter whose limits are on the Redis of client: one server, the primary that Sentinel names,
// or a Cluster. It is the Limiter that [ratelimit.New] makes on PostgreSQL; times are those of the Redis server, and a
// key's state expires by itself. The caller keeps and closes the client.
//
// Redis replicates asynchronously: after a failover, or a restart without persistence, the latest calls may not be
// counted.
func NewLimiter(client redis.UniversalClient, key pglock.Key, opts ...ratelimit.Option) (*ratelimit.Limiter, error) {
	if err := checkClients([]redis.UniversalClient{client}); err != nil {
		return nil, err
	}
	l, err := ratestore.NewLimiter(&rateStore{client: client, name: nodeName(client), prefix: defaultKeyPrefix}, key, opts)
	if err != nil {
		return nil, err
	}
	return l.(*ratelimit.Limiter), nil
}

// rateStore implements [ratestore.Store] with a string for each key, which expires when it does not matter any more.
type rateStore struct {
	client       redis.UniversalClient
	name, prefix string
}

func (r *rateStore) key(key string) string { return tags()[slotOf(key)] + "rate:" + r.prefix + key }

// Take runs a script for each key, all in one pipeline. The servers of a Cluster may fail separately, so each run
// has its own error.
func (r *rateStore) Take(ctx context.Context, runs []ratestore.Run) ([]ratestore.Grant, error) {
	var calls []*rateCall
	for i := 0; i < len(runs); {
		c := &rateCall{script: takeRate, key: r.key(runs[i].Key), first: i}
		for ; i < len(runs) && runs[i].Key == runs[c.first].Key; i++ {
			run := runs[i]
			c.args = append(c.args, run.Amount*run.Interval, run.Tolerance, run.Count, run.Patience)
			c.runs++
		}
		calls = append(calls, c)
	}
	r.send(ctx, calls)
	grants := make([]ratestore.Grant, len(runs))
	for _, c := range calls {
		mine := grants[c.first : c.first+c.runs]
		if err := c.read(mine); err != nil {
			for i := range mine {
				mine[i].Err = r.explain(err)
			}
		}
	}
	return grants, nil
}

// rateCall is one script for one key.
type rateCall struct {
	script      *script
	key         string
	args        []any
	first, runs int // the runs it is for
	cmd         *command
}

// send sends calls in a pipeline, and resends with the script's text those whose script the server does not know. No
// other command is retried, since it could take twice.
func (r *rateStore) send(ctx context.Context, calls []*rateCall) {
	for _, inFull := range []bool{false, true} {
		var commands []*command
		for _, c := range calls {
			if inFull && !redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
				continue
			}
			c.cmd = &command{redis.NewCmd(ctx, c.script.words(inFull, []string{c.key}, c.args)...)}
			commands = append(commands, c.cmd)
		}
		if len(commands) > 0 {
			pipeline(ctx, r.client, commands)
		}
	}
}

// read decodes the reply: the clock, in seconds and microseconds, and for each run how many were granted and how far
// the key's time was ahead of the clock.
func (c *rateCall) read(grants []ratestore.Grant) error {
	reply, err := c.cmd.Int64Slice()
	if err != nil {
		return err
	}
	if len(reply) != 2+2*len(grants) {
		return fmt.Errorf("the script take_rate returned %s", shorttext.Value(fmt.Sprint(reply)))
	}
	at := reply[0]*1e9 + reply[1]*1e3
	for i := range grants {
		grants[i] = ratestore.Grant{Granted: reply[2+2*i], Start: at + reply[3+2*i], At: at}
	}
	return nil
}

// Return implements [ratestore.Store].
func (r *rateStore) Return(ctx context.Context, key string, until, price int64) (bool, error) {
	c := &rateCall{script: returnRate, key: r.key(key), args: []any{until / 1e9, until % 1e9, price}}
	r.send(ctx, []*rateCall{c})
	returned, err := c.cmd.Int()
	if err != nil {
		return false, r.explain(err)
	}
	return returned == 1, nil
}

// explain classifies an error: if it is not the server's answer, the connection has failed.
func (r *rateStore) explain(err error) error {
	if isDenied(err) {
		return fmt.Errorf("%w: %w", driver.ErrDenied, (&node{name: r.name}).explain(err))
	}
	var answered redis.Error
	if errors.As(err, &answered) && !redis.HasErrorPrefix(err, "CLUSTERDOWN") && !redis.HasErrorPrefix(err, "LOADING") &&
		!redis.HasErrorPrefix(err, "READONLY") && !redis.HasErrorPrefix(err, "MASTERDOWN") {
		return (&node{name: r.name}).explain(err)
	}
	return fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, r.name, shorttext.Error(err))
}
