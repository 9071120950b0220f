package redisfallback

import (
	"cmp"
	"errors"
	"net/url"

	"github.com/redis/go-redis/v9"
)

// ParseURL returns a client for a URL in go-redis's format. The client is not connected, and the caller must close it.
//
//	redis://user:password@host:6379/0                         one server; rediss:// uses TLS, unix:// a socket
//	redis://host:26379?master_name=NAME&addr=host2:26379      the primary that Sentinels name
//	redis://host:6379?addr=host2:6379                         a Cluster, of which these are some nodes
//
// With Sentinels, the user and password before the @ are theirs; those of Redis itself are the parameters username and
// password. Other parameters, such as dial_timeout=3s, are those of redis.ParseURL, redis.ParseFailoverURL and
// redis.ParseClusterURL. dialer_retries defaults to 1, so that a server that is down is noticed at once. Sentinel's
// replica_only, route_by_latency and route_randomly are errors, because locks are kept on the primary.
// The error does not quote a malformed URL, since any part of it may belong to the password.
func ParseURL(text string) (client redis.UniversalClient, err error) {
	defer func() {
		if recover() != nil { // go-redis panics when a number is out of its range
			client, err = nil, errMalformed
		}
	}()
	client, err = parseURL(text)
	if errors.Is(err, errReplicas) {
		return nil, err
	}
	if err != nil {
		return nil, errMalformed
	}
	return client, nil
}

// ParseURLs calls [ParseURL] for each URL and returns the clients, as [NewBackend] takes them. If one is malformed it
// returns no clients.
func ParseURLs(texts ...string) ([]redis.UniversalClient, error) {
	var clients []redis.UniversalClient
	for _, text := range texts {
		client, err := ParseURL(text)
		if err != nil {
			for _, made := range clients {
				err = errors.Join(err, made.Close())
			}
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

func parseURL(text string) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if u.Opaque != "" { // in "redis:host", host is not the host
		return nil, errMalformed
	}
	switch query := u.Query(); {
	case query.Has("master_name"):
		opts, err := redis.ParseFailoverURL(text)
		switch {
		case err != nil:
			return nil, err
		case opts.MasterName == "":
			return nil, errMalformed
		case opts.ReplicaOnly || opts.RouteByLatency || opts.RouteRandomly:
			return nil, errReplicas
		}
		opts.DialerRetries = cmp.Or(opts.DialerRetries, dials)
		return redis.NewFailoverClient(opts), nil
	case query.Has("addr"):
		opts, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, err
		}
		opts.DialerRetries = cmp.Or(opts.DialerRetries, dials)
		return redis.NewClusterClient(opts), nil
	}
	opts, err := redis.ParseURL(text)
	if err != nil {
		return nil, err
	}
	opts.DialerRetries = cmp.Or(opts.DialerRetries, dials)
	return redis.NewClient(opts), nil
}

// dials is how often a client dials for one command. A waiter asks again anyway, and a try should fail soon if there is
// no server.
const dials = 1

var errReplicas = errors.New("the Redis URL asks for replicas, but locks are on the primary: remove replica_only, " +
	"route_by_latency and route_randomly")

var errMalformed = errors.New("malformed Redis URL (want redis://user:password@host:port/number, where @ / : ? and % in " +
	"user and password are written %40 %2F %3A %3F and %25; rediss:// for TLS; ?master_name=… for Sentinel; ?addr=… for " +
	"the other nodes of a Cluster)")
