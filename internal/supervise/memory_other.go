//go:build !linux

package supervise

func memoryDir() (dir string, ok bool) { return "", false }
