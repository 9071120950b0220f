//go:build !unix

package secretfile

import "io/fs"

// private does not check the access lists of other systems.
func private(fs.FileInfo) error { return nil }

func hidden(fs.FileInfo, bool) error { return nil }
