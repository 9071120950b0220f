package redisfallback

import (
	"cmp"
	"errors"
	"net/url"

	"github.com/redis/go-redis/v9"
)

// ParseURL makes a client for a URL as go-redis reads them. It does not connect, and the caller closes it.
//
//	redis://user:password@host:6379/0                         one server; rediss:// uses TLS, unix:// a socket
//	redis://host:26379?master_name=NAME&addr=host2:26379      the primary that Sentinels name
//	redis://host:6379?addr=host2:6379                         a Cluster, of which these are some nodes
//
// Where Sentinels are asked, user and password before the @ are for them; those of the Redis itself are the parameters
// username and password. More parameters, such as dial_timeout=3s, are those of redis.ParseURL, redis.ParseFailoverURL
// and redis.ParseClusterURL; dialer_retries is 1 unless it is given, so that a server that is down is noticed at once.
// Sentinel's replica_only, route_by_latency and route_randomly are errors: locks are on the primary.
//
// The error does not say what is wrong where: what it would show of a malformed URL may be a part of the password.
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

// ParseURLs is [ParseURL] for each of several URLs, as [NewBackend] takes them. If one is malformed there are no
// clients.
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
	if u.Opaque != "" { // "redis:host" is not the host
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

// dials is how often a client dials for one command. Who waits for a lock asks again anyway, and who does not wait is
// to hear soon that nobody is there.
const dials = 1

var errReplicas = errors.New("the Redis URL asks for replicas, which have no locks: leave out replica_only, " +
	"route_by_latency and route_randomly")

var errMalformed = errors.New("malformed Redis URL (want redis://user:password@host:port/number, where @ / : ? and % in " +
	"user and password are written %40 %2F %3A %3F and %25; rediss:// for TLS; ?master_name=… for Sentinel; ?addr=… for " +
	"the other nodes of a Cluster)")
