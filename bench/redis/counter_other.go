//go:build !unix

package main

import (
	"errors"
	"sync/atomic"
)

const counterSize = 8

func openCounter(string) (*atomic.Uint64, error) { return nil, errors.ErrUnsupported }
