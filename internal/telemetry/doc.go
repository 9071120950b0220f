// Package telemetry has nothing but a test: a fleet of processes works on a PostgreSQL, a Prometheus scrapes their metrics
// and evaluates the dashboard and the alerts for applications, and a receiver of OTLP gets their metrics and spans. It is a
// module of its own so that its dependencies are not those of programs that import pglock.
package telemetry
