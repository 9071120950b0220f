package postgres

import "github.com/pglock-toolkit/pglock/pglock/driver"

// Record implements [driver.Recorder].
func (b *Backend) Record(keys []driver.Key) {
	if b.names != nil {
		b.names.note(keys)
	}
}
