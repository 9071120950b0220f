package monitor

// FindCycles fills in the cycles of a snapshot that a test has made.
func (s *Snapshot) FindCycles() { s.Cycles = cycles(s.Locks, s.OtherWaits) }
