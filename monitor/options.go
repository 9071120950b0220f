package monitor

import "github.com/pglock-toolkit/pglock/internal/options"

// Option changes what [Take] and a [Watcher] do.
type Option func(*config) error

type config struct {
	trusted  []string
	wanted   []int32
	holder   string  // a process that uses locks in rows; empty for none
	advisory bool    // leaves out waits for other locks
	memory   *memory // nil if nothing is remembered
}

func newConfig(opts []Option) (config, error) {
	o := config{wanted: []int32{}}
	err := options.Apply(&o, opts)
	return o, err
}

// WithTrustedOwner names roles that may own the name registry. Querying a registry can execute its owner's code with
// the rights of the monitor's role. The current role and superusers are always trusted.
//
// A registry of any other role is not read, and [Snapshot.NamesMissing] says so. Take returns an error for a role that
// does not exist, and for an empty name.
func WithTrustedOwner(roles ...string) Option {
	return func(o *config) error { return options.TrustOwners(&o.trusted, roles) }
}

// WithSession adds a session to the snapshot, whether or not it has anything to do with advisory locks. It is in
// [Snapshot.OtherSessions], and its waits and waiters are in the wait graph. A parallel worker is replaced by its
// leader. Of a process ([Lease.Holder]) all locks in rows are read, up to 10,000; of several processes the last one
// counts. A session or process that is not there is ignored.
func WithSession(id SessionID) Option {
	return func(o *config) error {
		if id.PID != 0 {
			o.wanted = append(o.wanted, id.PID)
		}
		if id.Holder != "" {
			o.holder = id.Holder
		}
		return nil
	}
}

// WithAdvisory leaves out waits for locks that are neither advisory locks nor in rows, and the sessions that only these
// concern. [Snapshot.WaitsElsewhere] counts them.
func WithAdvisory() Option {
	return func(o *config) error {
		o.advisory = true
		return nil
	}
}
