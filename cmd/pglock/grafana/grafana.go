// Package grafana has a dashboard for the metrics of pglock exporter.
package grafana

import _ "embed"

// Dashboard is a dashboard in Grafana's JSON, to be imported. It asks for a Prometheus data source.
//
//go:embed pglock.json
var Dashboard []byte
