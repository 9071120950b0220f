// Package errortable tests the table of docs/errors.md, also with lib/pq.
package errortable
