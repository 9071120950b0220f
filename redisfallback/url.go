package redisfallback

import (
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
// The error does not say what is wrong where: what it would show of a malformed URL may be a part of the password.
func ParseURL(text string) (redis.UniversalClient, error) {
	client, err := parseURL(text)
	if err != nil {
		return nil, errMalformed
	}
	return client, nil
}

// ParseURLs is [ParseURL] for each of several URLs, as [NewBackend] takes them. If one is malformed there are no clients.
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
	switch query := u.Query(); {
	case query.Has("master_name"):
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
