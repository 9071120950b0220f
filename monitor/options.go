package monitor

import (
	"errors"
	"slices"
)

// Option changes what [Take] and a [Watcher] do.
type Option func(*options) error

type options struct {
	trusted  []string
	wanted   []int32
	holder   string  // a process that uses locks in rows; empty for none
	advisory bool    // leaves out waits for other locks
	memory   *memory // nil if nothing is remembered
}

func newOptions(opts []Option) (options, error) {
	o := options{wanted: []int32{}}
	for _, opt := range opts {
		if opt == nil {
			return o, errors.New("an Option is nil")
		}
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// WithTrustedOwner names roles that may own the name registry. Querying a registry can execute its owner's code with the
// rights of the monitor's role. The current role and superusers are always trusted.
//
// A registry of any other role is not read, and [Snapshot.NamesMissing] says so. Take returns an error for a role that does not
// exist, and for an empty name.
func WithTrustedOwner(roles ...string) Option {
	return func(o *options) error {
		if slices.Contains(roles, "") {
			return errors.New("WithTrustedOwner: the name of a role is empty")
		}
		o.trusted = append(o.trusted, roles...)
		return nil
	}
}

// WithSession adds a session to the snapshot, whether or not it has anything to do with advisory locks. It is in
// [Snapshot.OtherSessions], and its waits and waiters are in the wait graph. A parallel worker is replaced by its leader. Of a
// process ([Lease.Holder]) all locks in rows are read, up to 10,000. A session or process that is not there is ignored.
func WithSession(id SessionID) Option {
	return func(o *options) error {
		if id.PID != 0 {
			o.wanted = append(o.wanted, id.PID)
		}
		o.holder = id.Holder
		return nil
	}
}

// WithAdvisory leaves out waits for locks that are neither advisory locks nor in rows, and the sessions that only these concern.
// [Snapshot.WaitsElsewhere] counts them.
func WithAdvisory() Option {
	return func(o *options) error {
		o.advisory = true
		return nil
	}
}
