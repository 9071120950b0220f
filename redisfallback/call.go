package redisfallback

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// call is one command for one node.
type call struct {
	request
	singleKey func(request) request // what to send while the lock's slot migrates, or nil
	about     []holding             // the locks it concerns; it does not overtake earlier calls for any of them
	then      func(*call)           // called at the end; must not block
	done      chan<- struct{}       // also notified; has room
	undoes    *call                 // the attempt that this release undoes; kept for a node that is down

	bundled []*call     // the calls that this one executes
	dropped atomic.Bool // not needed any more, so it need not be sent
	sent    atomic.Bool // it may have been executed
	cmd     *command
	value   any
	err     error

	// Under node.mu:
	before           int     // how many calls must end first
	followers        []*call // those that wait for this one
	ended, abandoned bool    // abandoned: its caller left before it ended
}

// report notifies the caller that the call has ended.
func (c *call) report() {
	if c.then != nil {
		c.then(c)
	}
	if c.done != nil {
		c.done <- struct{}{}
	}
}

// markSent notes that the call, and those that it bundles, may be executed from now on.
func (c *call) markSent() {
	c.sent.Store(true)
	for _, b := range c.bundled {
		b.sent.Store(true)
	}
}

// request is a script, a plain command, or the acquisition or release of an exclusive lock without waiters. These two
// are so frequent that they are encoded only when it is known whether they travel alone or in a bundle.
type request struct {
	script *script // nil for a plain command
	keys   []string
	args   []any // the script's, or the whole command
	inFull bool  // the script is sent as text

	takes, gives *names // with token, instead of keys and args
	token        string
	millis       int64 // the lease that is taken, or how long an offer lasts
}

var errNoAnswer = errors.New("no answer in time")

// command is a command that go-redis does not retry: after an error the server may have executed it, and this package
// decides what to do then.
type command struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (*command) NoRetry() bool { return true }

// pipeline sends commands in one piece; each gets its own error. go-redis leaves commands as they are if the server has
// refused the connection on which they were to be sent, for example because of the password.
func pipeline(ctx context.Context, client redis.UniversalClient, commands []*command) {
	pipe := client.Pipeline()
	for _, c := range commands {
		_ = pipe.Process(ctx, c) // only queues
	}
	_, err := pipe.Exec(ctx)
	for _, c := range commands {
		if c.Err() == nil && c.Val() == nil { // an answer without a value is redis.Nil
			c.SetErr(cmp.Or(err, errNoAnswer))
		}
	}
}

// command makes what is sent.
func (r *request) command() *command {
	return &command{redis.NewCmd(context.Background(), r.words()...)}
}

func (r *request) words() []any {
	switch {
	case r.takes != nil: // as other clients do it
		return []any{"set", r.takes.lock, r.token, "px", r.millis, "nx"}
	case r.gives != nil:
		return r.script.words(r.inFull, r.gives.keys(r.script.keys), []any{r.token, r.millis})
	case r.script != nil:
		return r.script.words(r.inFull, r.keys, r.args)
	}
	return r.args
}

// words returns the command that runs the script.
func (s *script) words(inFull bool, keys []string, args []any) []any {
	words := make([]any, 0, 3+len(keys)+len(args))
	if inFull {
		words = append(words, "eval", s.text)
	} else {
		words = append(words, "evalsha", s.sha)
	}
	words = append(words, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	return append(words, args...)
}

// reform gives the call another form if its error requires one, and reports whether it did.
func (c *call) reform() bool {
	switch {
	case c.script != nil && !c.inFull && redis.HasErrorPrefix(c.err, "NOSCRIPT"):
		c.inFull = true // the server was restarted, or its scripts were flushed
	case c.singleKey != nil && isMigrating(c.err):
		c.request, c.singleKey = c.singleKey(c.request), nil
	default:
		return false
	}
	c.cmd = c.command()
	return true
}

// isMigrating reports whether the error means that a slot is moving from one node to another. A command on several keys
// cannot be executed then, since some of them may be on either
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#multi-keys-operations).
func isMigrating(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }

// isCrossSlot reports whether the server belongs to a Cluster and the keys of a command to several of its slots.
func isCrossSlot(err error) bool { return redis.HasErrorPrefix(err, "CROSSSLOT") }

// said reports whether the server did what was asked. After an error, other than a refusal, that is unknown.
func (c *call) said() (yes bool, err error) {
	if errors.Is(c.err, redis.Nil) { // SET NX of a key that is there
		return false, nil
	}
	if c.err != nil {
		return false, c.err
	}
	switch value := c.value.(type) {
	case int64:
		return value == 1, nil
	case []any: // of a script that returns more
		return len(value) > 0 && value[0] == int64(1), nil
	}
	return true, nil // OK
}

// refusal is what the server says about a lock that it refused.
type refusal struct {
	busy  time.Duration // how long the lock is still leased; 0 if unknown
	often bool          // the waiter should poll the lock often
}

// refusal decodes the reply of ask_exclusive and ask_shared.
func (c *call) refusal() (r refusal) {
	reply, ok := c.value.([]any)
	if !ok || len(reply) < 3 {
		return refusal{}
	}
	if millis, ok := reply[1].(int64); ok && millis > 0 {
		r.busy = time.Duration(millis) * time.Millisecond
	}
	r.often = reply[2] == int64(1)
	return r
}
