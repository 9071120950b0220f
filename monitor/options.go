package monitor

// Option changes what [Take] and [Watch] do.
type Option func(*options)

type options struct {
	names   *Dictionary
	trusted []string
	wanted  []int32
	copied  *copiedNames // nil: each Take makes its own
}

func newOptions(opts []Option) options {
	o := options{names: &Dictionary{}, wanted: []int32{}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithDictionary shows keys by the names in a dictionary, beside those of the name registry, and in every database of the
// server. Given more than once, or nil, the last one counts.
func WithDictionary(names *Dictionary) Option {
	return func(o *options) {
		if o.names = names; names == nil {
			o.names = &Dictionary{}
		}
	}
}

// WithTrustedOwner names roles whose code the monitor may execute with the rights of its own role, which is what asking
// a name registry of theirs means. Trusted without being named are the current role, superusers, and members of the
// current role; and, where the current role has neither SUPERUSER, CREATEROLE, REPLICATION nor BYPASSRLS and is in no
// role pg_…, the owner of the database.
//
// Of a registry that belongs to any other role nothing is executed. It is copied whole if it is a plain table of at most
// 16 MiB and the monitor has a connection or pool of its own; Watch copies it every 15 seconds. Otherwise
// [Snapshot.NamesMissing] says why there are no names. A role that does not exist is an error of Take.
func WithTrustedOwner(roles ...string) Option {
	return func(o *options) { o.trusted = append(o.trusted, roles...) }
}

// ReuseCopy returns an option that lets all calls of [Take] which get it share a copy of a registry that has to be copied,
// for 15 seconds. [Watch] does so by itself. It may be used from many goroutines at once.
func ReuseCopy() Option {
	copied := &copiedNames{}
	return func(o *options) { o.copied = copied }
}

// WithSession has a snapshot also show sessions that have nothing to do with advisory locks, by their process IDs: they
// are in [Snapshot.OtherSessions], and what they wait for and keep others from is in the wait graph. The leader of a
// parallel worker is there too. Process IDs that are no session's are passed over.
func WithSession(pids ...int32) Option {
	return func(o *options) { o.wanted = append(o.wanted, pids...) }
}
