// Package interop tests, with the real clients, that locks of package redisfallback and those of redis-py, redsync
// and bsm/redislock exclude each other. It is a separate module so that those clients stay out of other programs'
// module graph.
package interop
