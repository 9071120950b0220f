package redisfallback

// What is sent about one key of a grant.

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
		return b.callsAbout(g, i, share, b.leaseMillis, g.holder(i), g.place(), line)
	}
	place := ""
	if line != noLine || again {
		place = g.place()
	}
	calls := b.callsAbout(g, i, take, g.value(i), b.leaseMillis, place, line, again)
	if b.cluster {
		calls[0].alone = &request{args: []any{"set", g.keys[i].lock, g.value(i), "px", b.leaseMillis, "nx"}}
	}
	return calls
}

// releaseCalls release a key; an offer to the next in line lasts for offer milliseconds. If waits is true they also end the
// grant's wait in the line.
func (b *backend) releaseCalls(g *grant, i int, offer int64, waits bool) []call {
	place := ""
	if waits {
		place = g.place()
	}
	if g.shared {
		return b.callsAbout(g, i, releaseShared, g.holder(i), offer, place)
	}
	calls := b.callsAbout(g, i, release, g.value(i), offer, place)
	if b.cluster {
		calls[0].alone = &request{script: releaseAlone, keys: g.keys[i].keys(1), args: []any{g.value(i)}}
	}
	return calls
}

// renewCalls renew the lease of a key.
func (b *backend) renewCalls(g *grant, i int) []call {
	if g.shared {
		return b.callsAbout(g, i, renewShared, g.holder(i), b.leaseMillis)
	}
	return b.callsAbout(g, i, renew, g.value(i), b.leaseMillis)
}

// callsAbout makes a script call about one of g's keys for every node.
func (b *backend) callsAbout(g *grant, i int, s *script, args ...any) []call {
	calls := b.calls(s, g.keys[i].keys(s.keys), args...)
	for n := range calls {
		calls[n].lane = slotOf(g.keys[i].lock)
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
