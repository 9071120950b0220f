package redisfallback

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// call is one command for one node.
type call struct {
	request
	singleKey func(request) request // what to send while the lock's slot migrates; nil when there is nothing
	about     []holding             // which locks it concerns; it does not overtake earlier calls that concern any of them
	then      func(*call)           // called at the end; does not block
	done      chan<- struct{}       // notified as well, with room for it
	undoes    *call                 // the attempt that this release takes back; it is owed to a node that is away

	bundled []*call     // what this call does for several others
	dropped atomic.Bool // not wanted any more, so it need not be sent
	sent    atomic.Bool // it may have been carried out
	cmd     *command
	value   any
	err     error

	// Under node.mu:
	before           int     // how many calls have to end first
	followers        []*call // for which this one has to
	ended, abandoned bool    // abandoned: its caller left before it ended
}

// report says that the call has ended.
func (c *call) report() {
	if c.then != nil {
		c.then(c)
	}
	if c.done != nil {
		c.done <- struct{}{}
	}
}

// markSent says that from now on the call, and those that it bundles, may have been carried out.
func (c *call) markSent() {
	c.sent.Store(true)
	for _, b := range c.bundled {
		b.sent.Store(true)
	}
}

// request is a script, a plain command, or the taking or giving of an exclusive lock that nobody waits for. Those two
// are so frequent that they are put into words only when it is known whether they travel alone or in a bundle.
type request struct {
	script *script // nil for a plain command
	keys   []string
	args   []any // the script's, or the whole command
	inFull bool  // the script is sent as text

	takes, gives *names // by the token; instead of keys and args
	token        string
	millis       int64 // the lease that is taken, or how long an offer lasts
}

var errNoAnswer = errors.New("no answer in time")

// command is a command that go-redis does not repeat by itself: after an error it is not known whether the server has
// carried it out, and what to do then is decided here.
type command struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (*command) NoRetry() bool { return true }

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

// words are the command that runs the script.
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

// reform gives the call another form when its error asks for one, and reports whether it did.
func (c *call) reform() bool {
	switch {
	case c.script != nil && !c.inFull && redis.HasErrorPrefix(c.err, "NOSCRIPT"):
		c.inFull = true // the server was restarted, or somebody flushed its scripts
	case c.singleKey != nil && isMigrating(c.err):
		c.request, c.singleKey = c.singleKey(c.request), nil
	default:
		return false
	}
	c.cmd = c.command()
	return true
}

// isMigrating tells whether the error means that a slot is on its way from one node to another. A command on several
// keys cannot be carried out then, since some of them may be on either
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#multi-keys-operations).
func isMigrating(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }

// isCrossSlot reports whether the server belongs to a Cluster, and the keys of a command to several of its slots.
func isCrossSlot(err error) bool { return redis.HasErrorPrefix(err, "CROSSSLOT") }

// said tells what the server answered: whether it did what was asked. Other errors than its refusal say nothing.
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
	case []any: // of a script that says more
		return len(value) > 0 && value[0] == int64(1), nil
	}
	return true, nil // OK
}

// refusal is what the server says about a lock that it refused.
type refusal struct {
	busy  time.Duration // how long the lock is still leased; 0 when that is not known
	often bool          // the waiter is to look at it often
}

// refusal reads what ask_exclusive and ask_shared return.
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
