//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const counterSize = 8

// openCounter shares a file's memory with other processes. It stays mapped until the process ends.
func openCounter(path string) (*atomic.Uint64, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(file.Fd()), 0, counterSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(memory))), nil
}
