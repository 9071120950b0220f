//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package term

import "os"

func size(*os.File) (columns, rows int, ok bool) { return 0, 0, false }

func foreground(*os.File) bool { return false }
