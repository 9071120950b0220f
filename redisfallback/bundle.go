package redisfallback

import "slices"

// maxBundle is how many calls one script executes; Lua can pass a few thousand arguments to a command.
const maxBundle = 500

// leastTakes is how many takes a bundle has at least: fewer cost less as commands of their own, which are plain SETs. Releases
// are scripts in any case.
const leastTakes = 8

// bundle combines calls for uncontended exclusive locks, many in one script, which costs both sides less than as many
// commands.
func bundle(calls []*call) (singles, bundles []*call) {
	var takes, releases []*call
	for _, c := range calls {
		switch {
		case c.gives != nil:
			releases = append(releases, c)
		case c.takes != nil:
			takes = append(takes, c)
		default:
			singles = append(singles, c)
		}
	}
	for _, group := range []struct {
		calls []*call
		least int
		bind  func([]*call) request
	}{{takes, leastTakes, takeBundle}, {releases, 2, releaseBundle}} {
		if len(group.calls) < group.least {
			singles = append(singles, group.calls...)
			continue
		}
		for some := range slices.Chunk(group.calls, maxBundle) {
			bundles = append(bundles, &call{request: group.bind(some), bundled: some})
		}
	}
	return singles, bundles
}

func takeBundle(takes []*call) request {
	keys, args := make([]string, 0, len(takes)), make([]any, 1, 1+len(takes))
	for _, c := range takes {
		keys, args = append(keys, c.takes.lock), append(args, c.token)
	}
	args[0] = takes[0].millis // the same for all calls of a Locker
	return request{script: takeMany, keys: keys, args: args}
}

func releaseBundle(releases []*call) request {
	keys, args := make([]string, 0, 3*len(releases)), make([]any, 0, len(releases))
	for _, c := range releases {
		keys, args = append(keys, c.gives.lock), append(args, c.token)
	}
	for _, c := range releases {
		keys = append(keys, c.gives.writers(), c.gives.readers())
	}
	return request{script: releaseMany, keys: keys, args: args}
}

// unbundle gives the calls their results, and returns those that must be sent alone: the lock has waiters, or the
// server wants the keys of a command in one slot. After such an error the server is not sent bundles again. It checks
// the slots before it executes anything, so nothing happens twice.
func (n *node) unbundle(bundles []*call) (again []*call) {
	const waitedFor = int64(2)
	for _, b := range bundles {
		if isCrossSlot(b.err) {
			n.single.Store(true)
			again = append(again, b.bundled...)
			continue
		}
		values, _ := b.value.([]any)
		for i, c := range b.bundled {
			switch {
			case b.err != nil:
				c.err = b.err
			case i >= len(values) || values[i] == waitedFor:
				again = append(again, c)
			default:
				c.value = values[i]
			}
		}
	}
	return again
}
