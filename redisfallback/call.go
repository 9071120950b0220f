package redisfallback

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// call is one command for one node.
type call struct {
	request
	alone *request    // what to send while the lock's slot moves to another node of a Cluster, or nil
	lane  int         // calls of one lane are not reordered
	then  func(*call) // called at the end; must not block

	cmd   *command
	value any
	err   error
}

// end reports the call's end, with err if it was not sent.
func (c *call) end(err error) {
	if err != nil {
		c.err = err
	}
	if c.then != nil {
		c.then(c)
	}
}

// request is a script or a plain command.
type request struct {
	script *script // nil for a plain command
	keys   []string
	args   []any // the script's, or the whole command
	inFull bool  // the script is sent as text
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
	words := r.args
	if r.script != nil {
		words = r.script.words(r.inFull, r.keys, r.args)
	}
	return &command{redis.NewCmd(context.Background(), words...)}
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
	case c.alone != nil && isMigrating(c.err):
		c.request, c.alone = *c.alone, nil
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
	busy    time.Duration // how long the lock is still leased; 0 if unknown
	ahead   int           // how many waiters are ahead in the line
	foreign bool          // the holder is a client of another library, which will not wake anyone
}

// refusal decodes the reply of the scripts take and share.
func (c *call) refusal() (r refusal, ok bool) {
	reply, ok := c.value.([]any)
	if !ok || len(reply) < 4 {
		return refusal{}, false
	}
	if millis, ok := reply[1].(int64); ok && millis > 0 {
		r.busy = time.Duration(millis) * time.Millisecond
	}
	if ahead, ok := reply[2].(int64); ok {
		r.ahead = int(ahead)
	}
	r.foreign = reply[3] == int64(1)
	return r, true
}
