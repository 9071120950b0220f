package redisfallback

import "slices"

// maxBundle is how many releases one script carries out; Lua can pass some thousand arguments to a command.
const maxBundle = 500

// bundle puts the releases of exclusive locks together, several in one script: a script costs the server much more than
// the commands in it.
func bundle(calls []*call) (singles, bundles []*call) {
	var releases []*call
	for _, c := range calls {
		if c.script == releaseExclusive {
			releases = append(releases, c)
		} else {
			singles = append(singles, c)
		}
	}
	if len(releases) < 2 {
		return calls, nil
	}
	for some := range slices.Chunk(releases, maxBundle) {
		bundles = append(bundles, newBundle(some))
	}
	return singles, bundles
}

func newBundle(releases []*call) *call {
	keys, args := make([]string, 0, 3*len(releases)), make([]any, 0, len(releases))
	for _, c := range releases {
		keys, args = append(keys, c.keys[0]), append(args, c.args[0])
	}
	for _, c := range releases {
		keys = append(keys, c.keys[2], c.keys[3])
	}
	return &call{request: request{script: releaseMany, keys: keys, args: args}, bundled: releases}
}

// unbundle tells the releases what came of them, and returns those that have to be sent on their own: somebody waits for
// the lock.
func unbundle(bundles []*call) (again []*call) {
	const waitedFor = int64(2)
	for _, b := range bundles {
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
