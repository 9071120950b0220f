package redisfallback_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/redisfallback"
)

func TestURLsSayWhichKindOfClientIsMeant(t *testing.T) {
	for url, want := range map[string]string{
		"redis://localhost":                         "one server localhost:6379",
		"redis://u:p@h:1/3":                         "one server h:1",
		"rediss://h?dial_timeout=3s":                "one server h:6379, TLS",
		"unix:///run/redis.sock?db=1":               "one server /run/redis.sock",
		"redis://h?master_name=m&addr=i:2":          "one server FailoverClient",
		"rediss://u:p@h:2?master_name=m&password=q": "one server FailoverClient, TLS",
		"redis://h:1?addr=i:2&addr=j:3":             "Cluster h:1 i:2 j:3",
		"rediss://h?addr=i:2":                       "Cluster h:6379 i:2, TLS",
	} {
		client, err := redisfallback.ParseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := kindOf(closing(t, client)); got != want {
			t.Errorf("%s is %q, want %q", url, got, want)
		}
	}
}

func kindOf(client redis.UniversalClient) (kind string) {
	tls := false
	switch c := client.(type) {
	case *redis.Client:
		kind, tls = "one server "+c.Options().Addr, c.Options().TLSConfig != nil
	case *redis.ClusterClient:
		kind, tls = "Cluster "+strings.Join(c.Options().Addrs, " "), c.Options().TLSConfig != nil
	}
	if tls {
		kind += ", TLS"
	}
	return kind
}

func TestURLWrongURLsAreErrorsWithoutTheirPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"":                           "malformed",
		"http://u:hunter2@h":         "malformed",
		"redis:h":                    "malformed",
		"redis://u:hunter2/x@h":      "malformed",
		"redis://u:hunter2%@h":       "malformed",
		"redis://u:hunter2@h/x":      "malformed",
		"redis://u:hunter2@h?nope=1": "malformed",
		"redis://u:hunter2@h?pool_size=3000000000": "malformed",
		"redis://u:hunter2@h?pool_size=-3":         "malformed",
		"redis://u:hunter2@h?master_name=":         "malformed",
		"redis://u:hunter2@h?master_name=m&addr=x": "malformed",
		"redis://u:hunter2@h?addr=":                "malformed",
	} {
		client, err := redisfallback.ParseURL(url)
		if err == nil || client != nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", url, client, err)
		}
	}
}
