// Package grafana contains a dashboard for the metrics of pglock serve.
package grafana

import _ "embed"

// Dashboard is a dashboard in Grafana's JSON, ready to import. It needs a Prometheus data source.
//
//go:embed pglock.json
var Dashboard []byte
