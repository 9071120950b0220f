package monitor

import (
	"errors"
	"slices"
)

// Option changes what [Take] and [Watch] do.
type Option func(*options) error

type options struct {
	names   *Dictionary
	trusted []string
	wanted  []int32
	// allWaits is for waits that have nothing to do with advisory locks.
	allWaits bool
	copied   *copiedNames // nil if each Take copies the registry
	seen     *seenNames   // nil if none are remembered
	kept     *keptNames   // the same
}

func newOptions(opts []Option) (options, error) {
	o := options{names: &Dictionary{}, wanted: []int32{}}
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

// WithDictionary shows keys by the names in a dictionary, beside those of the name registry, and in every database of the
// server. Given more than once, the last one counts. A nil dictionary is an error.
func WithDictionary(d *Dictionary) Option {
	return func(o *options) error {
		if d == nil {
			return errors.New("WithDictionary: the dictionary is nil")
		}
		o.names = d
		return nil
	}
}

// WithTrustedOwner names roles that may own the name registry. Querying a registry can execute its owner's code with the
// rights of the monitor's role. The current role and superusers are always trusted.
//
// A registry of any other role is not queried. It is copied whole if it is a plain table of at most 16 MiB and the
// monitor was given a connection or pool, not a transaction or a wrapper; Watch copies it every 15 seconds. Otherwise
// [Snapshot.NamesMissing] says why there are no names. Take returns an error for a role that does not exist, and for an
// empty name.
func WithTrustedOwner(roles ...string) Option {
	return func(o *options) error {
		if slices.Contains(roles, "") {
			return errors.New("WithTrustedOwner: the name of a role is empty")
		}
		o.trusted = append(o.trusted, roles...)
		return nil
	}
}

// ReuseCopy returns an option that lets all calls of [Take] which get it share one copy of a registry for 15 seconds.
// [Watch] does so anyway. It may be used from many goroutines at once.
func ReuseCopy() Option {
	copied := &copiedNames{}
	return func(o *options) error {
		o.copied = copied
		return nil
	}
}

// RememberNames returns an option that lets calls of [Take] share the names that they see in queries, such as
// pglock.key('invoice:42'): a lock keeps its name when its holder runs other statements. They also share what the name
// registry says of keys that stay locked, for 15 seconds. All must be of one server. [Watch] does so anyway. It may be used from many goroutines at once.
func RememberNames() Option {
	seen, kept := &seenNames{names: map[identity]string{}}, &keptNames{}
	return func(o *options) error {
		o.seen, o.kept = seen, kept
		return nil
	}
}

// WithSession adds sessions to the snapshot by their process IDs, whether or not they have anything to do with advisory
// locks. They are in [Snapshot.OtherSessions], and their waits and waiters are in the wait graph. A parallel worker is
// replaced by its leader. Process IDs that belong to no session are ignored.
func WithSession(pids ...int32) Option {
	return func(o *options) error {
		o.wanted = append(o.wanted, pids...)
		return nil
	}
}

// WithAllWaits adds all waits for locks of any type to the wait graph, also those that have nothing to do with advisory
// locks: they are in [Snapshot.OtherWaits], and their sessions in [Snapshot.OtherSessions]. Without it
// [Snapshot.WaitsElsewhere] counts them.
func WithAllWaits() Option {
	return func(o *options) error {
		o.allWaits = true
		return nil
	}
}
