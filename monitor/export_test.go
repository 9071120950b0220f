package monitor

// FindCycles fills in the cycles of a snapshot that a test has made.
func (s *Snapshot) FindCycles() { s.Cycles = cycles(s) }

// Compare orders sessions as the tree does.
func (id SessionID) Compare(other SessionID) int { return id.compare(other) }
