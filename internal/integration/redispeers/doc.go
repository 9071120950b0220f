// Package redispeers tests, with the real clients, that locks of package redisfallback and those of redis-py, redsync
// and bsm/redislock exclude each other.
package redispeers
