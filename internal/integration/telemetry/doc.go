// Package telemetry contains only a test: several processes work on a PostgreSQL server, a Prometheus scrapes their
// metrics and evaluates the dashboard and the alerts for applications, and an OTLP receiver gets their metrics and
// spans.
package telemetry
