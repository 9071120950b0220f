// Package telemetry contains only a test: several processes work on a PostgreSQL server, a Prometheus scrapes their
// metrics and evaluates the dashboard and the alerts for applications, and an OTLP receiver gets their metrics and
// spans. It is a separate module so that its dependencies are not those of programs that import pglock.
package telemetry
