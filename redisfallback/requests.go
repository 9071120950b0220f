package redisfallback

// What is sent about one key of a grant. While the key's slot moves to another node of a Cluster, only a command on the one
// key is possible, which for exclusive locks does the same.

// How long a line lasts without being renewed, in milliseconds; with noLine the caller does not enter it.
const (
	noLine  = 0
	lineFor = 120_000
)

// What the scripts accept instead of an offer's duration.
const (
	releaseWake   = 0  // wakes the waiters, which then ask
	releaseSilent = -1 // wakes no waiter: the caller asks again itself
)

// takeCalls take a key, or enter its line. again says that an earlier attempt may have succeeded, or that the grant may be
// in the line.
func (b *backend) takeCalls(g *grant, i int, line int, again bool) []call {
	if g.shared {
		return b.callsAbout(g, i, share, nil, b.leaseMillis, g.holder(i), g.place(), line)
	}
	alone, place := &request{args: []any{"set", g.keys[i].lock, g.value(i), "px", b.leaseMillis, "nx"}}, ""
	if line != noLine || again {
		place = g.place()
	}
	return b.callsAbout(g, i, take, alone, g.value(i), b.leaseMillis, place, line, again)
}

// releaseCalls release a key; an offer to the next in line lasts for offer milliseconds. If waits is true they also end the
// grant's wait in the line.
func (b *backend) releaseCalls(g *grant, i int, offer int64, waits bool) []call {
	place := ""
	if waits {
		place = g.place()
	}
	if g.shared {
		return b.callsAbout(g, i, releaseShared, nil, g.holder(i), offer, place)
	}
	alone := &request{script: releaseAlone, keys: g.keys[i].keys(1), args: []any{g.value(i)}}
	return b.callsAbout(g, i, release, alone, g.value(i), offer, place)
}

// renewCalls renew the lease of a key.
func (b *backend) renewCalls(g *grant, i int) []call {
	if g.shared {
		return b.callsAbout(g, i, renewShared, nil, g.holder(i), b.leaseMillis)
	}
	return b.callsAbout(g, i, renew, nil, g.value(i), b.leaseMillis)
}

// callsAbout makes a script call about one of g's keys for every node.
func (b *backend) callsAbout(g *grant, i int, s *script, alone *request, args ...any) []call {
	calls := b.calls(s, g.keys[i].keys(s.keys), args...)
	for n := range calls {
		calls[n].lane, calls[n].alone = g.serial, alone
	}
	return calls
}

// calls makes the same call for every node: a script or a plain command.
func (b *backend) calls(s *script, keys []string, args ...any) []call {
	calls := make([]call, len(b.nodes))
	for i := range calls {
		calls[i].request = request{script: s, keys: keys, args: args}
	}
	return calls
}
