package redisfallback

// What is sent about the key of a grant.

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
func (b *backend) takeCalls(g *grant, line int, again bool) []call {
	if g.shared {
		return b.callsAbout(g, share, b.leaseMillis, g.holder(), g.place(), line)
	}
	place := ""
	if line != noLine || again {
		place = g.place()
	}
	calls := b.callsAbout(g, take, g.value(), b.leaseMillis, place, line, again)
	if b.cluster {
		calls[0].alone = &request{args: []any{"set", g.lock, g.value(), "px", b.leaseMillis, "nx"}}
	}
	return calls
}

// releaseCalls release a key; an offer to the next in line lasts for offer milliseconds. If waits is true they also end the
// grant's wait in the line.
func (b *backend) releaseCalls(g *grant, offer int64, waits bool) []call {
	place := ""
	if waits {
		place = g.place()
	}
	if g.shared {
		return b.callsAbout(g, releaseShared, g.holder(), offer, place)
	}
	calls := b.callsAbout(g, release, g.value(), offer, place)
	if b.cluster {
		calls[0].alone = &request{script: releaseAlone, keys: g.keys(1), args: []any{g.value()}}
	}
	return calls
}

// renewCalls renew the lease of a key.
func (b *backend) renewCalls(g *grant) []call {
	if g.shared {
		return b.callsAbout(g, renewShared, g.holder(), b.leaseMillis)
	}
	return b.callsAbout(g, renew, g.value(), b.leaseMillis)
}

// callsAbout makes a script call about g's key for every node.
func (b *backend) callsAbout(g *grant, s *script, args ...any) []call {
	calls := b.calls(s, g.keys(s.keys), args...)
	for n := range calls {
		calls[n].lane = slotOf(g.lock)
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
