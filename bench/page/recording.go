package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// recordingTarget is what recording may cost, in percent of a core.
const recordingTarget = 2

// recording measures what --record adds: it compares the processor time of two programs that watch and keep a journal,
// of which one also records. They run at the same time, so each sees the same changes and the same load of the machine.
// A round is a minute, in which there is one keyframe.
func (m measurement) recording(ctx context.Context, rounds int) (err error) {
	directory, err := os.MkdirTemp("", "pglock-page")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }() // it is temporary
	file := filepath.Join(directory, "recording")
	watching, err := m.start("--events")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watching.stop()) }()
	recorder, err := m.start("--events", "--record", file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorder.stop()) }()
	if err := pause(ctx, 5*time.Second); err != nil { // work that is done once at the start
		return err
	}
	size, began := sizeOf(file), time.Now()
	var without, with, added []float64
	for range rounds {
		start, before := time.Now(), [2]time.Duration{processorTime(watching.cmd.Process.Pid), processorTime(recorder.cmd.Process.Pid)}
		if err := pause(ctx, time.Minute); err != nil {
			return err
		}
		lasted := float64(time.Since(start))
		a := 100 * float64(processorTime(watching.cmd.Process.Pid)-before[0]) / lasted
		b := 100 * float64(processorTime(recorder.cmd.Process.Pid)-before[1]) / lasted
		without, with, added = append(without, a), append(with, b), append(added, b-a)
	}
	if err := errors.Join(watching.alive(), recorder.alive()); err != nil {
		return err
	}
	grown := float64(sizeOf(file)-size) / (1 << 20) * float64(time.Hour) / float64(time.Since(began))
	recorded, err := snapshots(file)
	if err != nil {
		return err
	}
	fmt.Printf(row, "pglock monitor --events", median(without))
	fmt.Printf(row, "pglock monitor --events --record", median(with))
	verdict := "reached"
	if median(added) >= recordingTarget {
		verdict = "missed"
	}
	fmt.Printf("%-44s %5.2f %% of a core, target < %d %%: %s\n", "recording alone", median(added), recordingTarget, verdict)
	fmt.Printf("%-44s %.2f to %.2f %% in %d minutes; %d snapshots, %.1f MB an hour\n", "",
		slices.Min(added), slices.Max(added), rounds, recorded, grown)
	return nil
}

// snapshots counts the snapshots of a recording that is still being written.
func snapshots(file string) (count int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := gzip.NewReader(f)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte(`{"kind":"snapshot"`)) {
			count++
		}
	}
	return count, nil // the end of the file may be missing
}

// alive returns an error if the program has ended: then its processor time is not known.
func (m *monitor) alive() error {
	if processorTime(m.cmd.Process.Pid) == 0 {
		return fmt.Errorf("%q has ended", m.cmd.Args)
	}
	return nil
}

// sizeOf returns the size of a file, or 0 if it does not exist yet.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
