package monitor

// Option changes what [Take] and [Watch] do.
type Option func(*options)

type options struct {
	names *Names
}

func newOptions(opts []Option) options {
	o := options{names: &Names{}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithNames shows keys by the names in a dictionary, beside those of the name registry, and in every database of the
// server. Given more than once, or nil, the last one counts.
func WithNames(names *Names) Option {
	return func(o *options) {
		if o.names = names; names == nil {
			o.names = &Names{}
		}
	}
}
