package redisfallback

import (
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
// redis.ParseClusterURL. The error does not quote a malformed URL, since any part of it may belong to the password.
func ParseURL(text string) (client redis.UniversalClient, err error) {
	defer func() {
		if recover() != nil { // go-redis panics when a number is out of its range
			client, err = nil, errMalformed
		}
	}()
	if client, err = parseURL(text); err != nil {
		return nil, errMalformed
	}
	return client, nil
}

func parseURL(text string) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" { // in "redis:host", host is not the host
		return nil, errMalformed
	}
	switch query := u.Query(); {
	case query.Get("master_name") != "":
		opts, err := redis.ParseFailoverURL(text)
		if err != nil {
			return nil, err
		}
		return redis.NewFailoverClient(opts), nil
	case query.Has("addr"):
		opts, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, err
		}
		return redis.NewClusterClient(opts), nil
	}
	opts, err := redis.ParseURL(text)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(opts), nil
}

var errMalformed = errors.New("malformed Redis URL (want redis://user:password@host:port/number, where @ / : ? and % in " +
	"user and password are written %40 %2F %3A %3F and %25; rediss:// for TLS; ?master_name=… for Sentinel; ?addr=… for " +
	"the other nodes of a Cluster)")
