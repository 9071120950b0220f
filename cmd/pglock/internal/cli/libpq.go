package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// This file is about parameters that libpq has and pgx does not, which a connection string for psql may contain. pgx would
// send them to the server, which knows none of them.

// harmless are parameters that do not change what a connection is, and the values with which others do not.
var harmless = map[string][]string{
	"keepalives": nil, "keepalives_idle": nil, "keepalives_interval": nil, "keepalives_count": nil, "tcp_user_timeout": nil,
	"gsslib": nil, "gssdelegation": nil, "load_balance_hosts": nil, "sslcompression": nil, "sslkeylogfile": nil,
	"gssencmode": {"disable", "prefer"}, "requirepeer": {""}, "sslcrl": {""}, "sslcrldir": {""}, "requiressl": {"0"},
	"scram_client_key": {""}, "scram_server_key": {""}, "replication": {"false", "off", "no", "0"},
}

var tlsVersions = map[string]uint16{
	"": 0, "TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13,
}

// adoptLibpq takes libpq's parameters out of those for the server, and does what they say.
func adoptLibpq(config *pgx.ConnConfig) error {
	params := config.RuntimeParams
	for name, values := range harmless {
		value, given := params[name]
		local := name == "requirepeer" && !strings.HasPrefix(config.Host, "/") // it is about Unix sockets only
		if given && values != nil && !local && !slices.Contains(values, value) {
			return fmt.Errorf("the parameter %s of libpq is not known here with that value (leave it out)", name)
		}
		delete(params, name)
	}
	if name := cmp.Or(params["application_name"], params["fallback_application_name"]); name != "" {
		params["application_name"] = name
	}
	for _, bound := range []struct {
		name string
		of   func(*tls.Config) *uint16
	}{
		{"ssl_min_protocol_version", func(c *tls.Config) *uint16 { return &c.MinVersion }},
		{"ssl_max_protocol_version", func(c *tls.Config) *uint16 { return &c.MaxVersion }},
	} {
		value, given := params[bound.name]
		version, known := tlsVersions[value]
		if given && !known {
			return fmt.Errorf("%s is none of TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3", bound.name)
		}
		for _, c := range tlsConfigs(config) {
			if given {
				*bound.of(c) = version
			}
		}
		delete(params, bound.name)
	}
	addresses := cmp.Or(params["hostaddr"], os.Getenv("PGHOSTADDR"))
	delete(params, "hostaddr")
	delete(params, "fallback_application_name")
	return dialAddresses(config, addresses)
}

func tlsConfigs(config *pgx.ConnConfig) (all []*tls.Config) {
	all = append(all, config.TLSConfig)
	for _, other := range config.Fallbacks {
		all = append(all, other.TLSConfig)
	}
	return slices.DeleteFunc(all, func(c *tls.Config) bool { return c == nil })
}

// dialAddresses has each host's own address dialled: the names are for certificates only.
func dialAddresses(config *pgx.ConnConfig, list string) error {
	if list == "" {
		return nil
	}
	hosts := []*string{&config.Host}
	for _, other := range config.Fallbacks {
		hosts = append(hosts, &other.Host)
	}
	var names []string
	for _, host := range hosts {
		if !slices.Contains(names, *host) {
			names = append(names, *host)
		}
	}
	addresses := strings.Split(list, ",")
	if len(addresses) != len(names) {
		return fmt.Errorf("hostaddr has %d addresses for %d hosts", len(addresses), len(names))
	}
	for _, host := range hosts {
		if strings.HasPrefix(*host, "/") {
			*host = addresses[slices.Index(names, *host)]
		}
	}
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) {
		if i := slices.Index(names, host); i >= 0 {
			host = addresses[i]
		}
		return []string{host}, nil
	}
	return nil
}
