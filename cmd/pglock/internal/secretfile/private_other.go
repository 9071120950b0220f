//go:build !unix

package secretfile

import "io/fs"

// hidden does not check the access lists of other systems.
func hidden(fs.FileInfo, bool) error { return nil }
