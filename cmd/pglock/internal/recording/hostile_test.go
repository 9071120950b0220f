package recording_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/report"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

const (
	snapshotText = `{"kind":"snapshot","at":"2026-01-02T12:00:00Z"}` + "\n"
	serverText   = `{"kind":"server","version":1}` + "\n"
)

// each returns n lines.
func each(n int, line func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i))
		b.WriteByte('\n')
	}
	return b.String()
}

func keyframe(text string) []byte {
	return recording.HostileMember(recording.Keyframe, []byte(snapshotText+serverText+text))
}

// padded returns a keyframe with the given lines, made long enough for its content with text that is not compressed well.
func padded(text string) []byte {
	const line = 100_000
	short := len(text)/24 - len(keyframe(text)) // bytes of the member that are missing
	padding := ""
	for x := uint64(1); len(padding) < 5*short/2; {
		var b strings.Builder
		for b.Len() < line {
			x = x*6364136223846793005 + 1442695040888963407
			fmt.Fprintf(&b, "%016x", x)
		}
		padding += `{"kind":"padding","x":"` + b.String() + "\"}\n"
	}
	return keyframe(text + padding)
}

const session1 = `{"kind":"session","id":1,"pid":7,"database":"d"}` + "\n"

// bombs are small files that take much memory or time in a naive reader.
var bombs = map[string]func() []byte{
	"zeros": func() []byte { return keyframe(strings.Repeat("\x00", 8<<20)) },
	"a long text": func() []byte {
		return padded(`{"kind":"session","id":1,"query":"` + strings.Repeat("x", 4<<20) + `"}`)
	},
	"deep": func() []byte { return padded(`{"kind":"server","capacity":` + strings.Repeat(`[`, 1<<19)) },
	"members of a list": func() []byte {
		many := `[` + strings.Repeat(`{},`, 340_000) + `{}]`
		return padded(each(7, func(i int) string {
			return []string{
				`{"kind":"cycle","steps":` + many + `}`, `{"kind":"lock","id":1,"lock":{"holders":` + many + `}}`,
				`{"kind":"lock","id":1,"key":"k","holders":` + many + `}`, `{"kind":"lock","id":1,"key":"k","waiters":` + many + `}`,
				`{"kind":"server","locks":` + many + `,"other_sessions":` + many + `}`, `{"kind":"server","capacity":{"top":` + many + `}}`,
				`{"kind":"other_wait","blocked_by":` + many + `}`,
			}[i]
		}))
	},
	"lists below the limit": func() []byte {
		many := `[` + strings.Repeat(`{},`, 7_000) + `{}]`
		return padded(each(100, func(i int) string { return `{"kind":"cycle","steps":` + many + `}` }))
	},
	"locks in a server": func() []byte {
		many := `[` + strings.Repeat(`{},`, 7_000) + `{}]`
		return padded(each(50, func(i int) string {
			return fmt.Sprintf(`{"kind":"lock","id":%d,"lock":{"holders":%s,"names":["",""]}}`, i, many)
		}))
	},
	"top": func() []byte { return padded(each(50_000, func(int) string { return `{"kind":"top","locks":1}` })) },
	"other waits": func() []byte {
		return padded(each(50_000, func(int) string { return `{"kind":"other_wait","session":1}` }))
	},
	"other sessions": func() []byte {
		return padded(each(50_000, func(int) string { return `{"kind":"other_session","session":1}` }))
	},
	"locks in rows": func() []byte { return padded(each(50_000, func(int) string { return `{"kind":"row_lock"}` })) },
	"holders of locks in rows": func() []byte {
		many := `[` + strings.Repeat(`{},`, 3_500) + `{}]`
		return padded(each(50, func(int) string { return `{"kind":"row_lock","lock":{"holders":` + many + `,"waiters":` + many + `}}` }))
	},
	"sessions": func() []byte {
		return padded(each(25_000, func(i int) string { return fmt.Sprintf(`{"kind":"session","id":%d}`, i) }))
	},
	"texts of sessions": func() []byte {
		return padded(each(2000, func(i int) string {
			return fmt.Sprintf(`{"kind":"session","id":%d,"query":"%s"}`, i, strings.Repeat("x", 10000))
		}))
	},
	"one text of many holders": func() []byte {
		return padded(`{"kind":"session","id":1,"query":"` + strings.Repeat("\U0001f600", 25000) + `"}` + "\n" + each(5000, func(i int) string {
			return fmt.Sprintf(`{"kind":"lock","id":%d,"key":"@%d","holders":[{"session":1}]}`, i, i)
		}))
	},
	"locks": func() []byte {
		return padded(session1 + each(15_000, func(i int) string {
			return fmt.Sprintf(`{"kind":"lock","id":%d,"key":"@%d","holders":[{"session":1}]}`, i, i)
		}))
	},
	"nearly too many locks": func() []byte {
		member := padded(session1 + each(11_000, func(i int) string {
			return fmt.Sprintf(`{"kind":"lock","id":%d,"key":"k%d","holders":[{"session":1,"mode":"exclusive"}]}`, i, i)
		}))
		return bytes.Repeat(member, 2)
	},
	"locks come and go": func() []byte {
		return padded(each(200, func(int) string {
			ids := strings.TrimSuffix(each(1000, func(i int) string { return fmt.Sprint(i) }), "\n")
			return each(1000, func(i int) string { return fmt.Sprintf(`{"kind":"lock","id":%d,"key":"k"}`, i) }) +
				`{"kind":"gone","locks":[` + strings.ReplaceAll(ids, "\n", ",") + `]}`
		}))
	},
	"more holders": func() []byte {
		return padded(session1 + `{"kind":"lock","id":1,"key":"k","waiters":[` + strings.Repeat(`{"session":1},`, 7_000) + `{"session":1}]}` + "\n" +
			each(100_000, func(int) string { return `{"kind":"lock","id":1,"more":true,"holders":[{"session":1}]}` }))
	},
	"waiters":        func() []byte { return waiters(9000, "exclusive") },
	"shared waiters": func() []byte { return waiters(9000, "shared") },
	"nearly too many waiters": func() []byte {
		// Each keyframe has the same waiters as new sessions.
		var file []byte
		for k := range 2 {
			file = append(file, waitersFrom(1000*k, 600, "exclusive")...)
		}
		return file
	},
	"a lock passed on by all to all": func() []byte {
		var file []byte
		for k := range 2 {
			from := 20_000 * k
			file = append(file, padded(each(2001, func(i int) string {
				return fmt.Sprintf(`{"kind":"session","id":%d,"pid":%d}`, i, from+i)
			})+`{"kind":"lock","id":1,"key":"k","waiters":[{"session":2000,"mode":"shared"}]}`+"\n"+each(2000, func(i int) string {
				return fmt.Sprintf(`{"kind":"lock","id":1,"more":true,"holders":[{"session":%d,"mode":"shared"}]}`, i)
			}))...)
		}
		return file
	},
	"snapshots of many locks": func() []byte {
		file := padded(session1 + each(3000, func(i int) string {
			return fmt.Sprintf(`{"kind":"lock","id":%d,"key":"@%d","holders":[{"session":1}],"waiters":[{"session":1}]}`, i, i)
		}))
		return append(file, bytes.Repeat(recording.HostileMember(recording.Change, []byte(snapshotText)), 2000)...)
	},
	"snapshots of few locks": func() []byte {
		file := padded(session1 + each(260, func(i int) string {
			return fmt.Sprintf(`{"kind":"lock","id":%d,"key":"@%d","holders":[{"session":1}]}`, i, i)
		}))
		return append(file, bytes.Repeat(recording.HostileMember(recording.Change, []byte(snapshotText)), 300)...)
	},
	"snapshots of few contended locks": func() []byte {
		file := padded(session1 + each(170, func(i int) string {
			return fmt.Sprintf(`{"kind":"lock","id":%d,"key":"@%d","holders":[{"session":1}],"waiters":[{"session":1,"mode":"exclusive"}]}`, i, i)
		}))
		return append(file, bytes.Repeat(recording.HostileMember(recording.Change, []byte(snapshotText)), 300)...)
	},
	"snapshots of one queue": func() []byte {
		file := waiters(500, "exclusive")
		return append(file, bytes.Repeat(recording.HostileMember(recording.Change, []byte(snapshotText)), 300)...)
	},
	"ended": func() []byte {
		return padded(`{"kind":"snapshot","at":"2026-01-02T12:00:01Z","ended":[` + strings.Repeat("1,", 500_000) + `1]}`)
	},
	"damage everywhere": func() []byte {
		return bytes.Repeat(append(recording.HostileMember(recording.Other, nil), 'x'), 3000)
	},
	"empty keyframes": func() []byte { return bytes.Repeat(keyframe(""), 1500) },
}

func waiters(n int, mode string) []byte { return waitersFrom(0, n, mode) }

func waitersFrom(pid, n int, mode string) []byte {
	return padded(each(n, func(i int) string { return fmt.Sprintf(`{"kind":"session","id":%d,"pid":%d}`, i, pid+i) }) +
		each(n/500+1, func(k int) string {
			line := fmt.Sprintf(`{"kind":"lock","id":1,"more":%t,"key":"k","waiters":[`, k > 0)
			for i := 500 * k; i < min(n, 500*k+500); i++ {
				line += fmt.Sprintf(`{"session":%d,"mode":"%s"},`, i, mode)
			}
			return strings.TrimSuffix(line, ",") + `]}`
		}))
}

// maxMemory is the most that a small recording may cost, with all that is computed and printed from it.
const maxMemory = 64 << 20

// TestProgramRecordingHostile reads each bomb in a process of its own, which prints how much memory its heap had at most, and how
// much processor time it took. What it takes for each byte is seen best with PGLOCK_TEST_BOMB_SIZE=1048576, which repeats
// the bombs up to that size, and without the race detector.
func TestProgramRecordingHostile(t *testing.T) {
	t.Parallel()
	size := 0
	if text := os.Getenv("PGLOCK_TEST_BOMB_SIZE"); text != "" {
		var err error
		if size, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "bomb.rec")
			file := recording.HostileMember(recording.Other, []byte(`{"kind":"start","version":1}`+"\n"))
			content := bomb()
			file = append(file, content...)
			for len(file) < size {
				file = append(file, content...)
			}
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			var heap uint64
			for range 3 { // on a busy machine the garbage collector can be late; what is in use is so each time
				if heap = readInChild(t, path); heap <= maxMemory {
					break
				}
			}
			t.Logf("%d bytes of file, %d MB", len(file), heap>>20)
			if heap > maxMemory {
				t.Errorf("it took %d MB", heap>>20)
			}
		})
	}
}

// readInChild returns how much memory the heap of a process had that read the file.
func readInChild(t *testing.T, path string) (heap uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestRecordingChild$", "-test.v")
	cmd.Env = append(os.Environ(), "PGLOCK_TEST_BOMB="+path)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "heap "); ok {
			if heap, err = strconv.ParseUint(text, 10, 64); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Log(line)
	}
	if heap == 0 {
		t.Fatalf("the process did not say how much memory it took:\n%s", output)
	}
	return heap
}

// What is compressed better than a recorder does it is not inflated to its end.
func TestProgramRecordingHostileLengthIsBounded(t *testing.T) {
	t.Parallel()
	for lines, want := range map[int]bool{100: false, 100_000: true} {
		path := filepath.Join(t.TempDir(), "bomb.rec")
		if err := os.WriteFile(path, keyframe(strings.Repeat(`{"kind":"later"}`+"\n", lines)), 0o600); err != nil {
			t.Fatal(err)
		}
		past, err := recording.OpenPast(false, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range past.Play(time.Time{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if damage := past.Damaged(); errors.Is(damage, recording.ErrCorrupt) != want {
			t.Errorf("%d lines: %v", lines, damage)
		}
		if err := past.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRecordingChild is the process of TestProgramRecordingHostile. It does what replay and report do.
func TestRecordingChild(t *testing.T) {
	path := os.Getenv("PGLOCK_TEST_BOMB")
	if path == "" {
		t.Skip("this is a part of TestProgramRecordingHostile")
	}
	recording.BoundMemory()
	past, err := recording.OpenPast(false, path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	began := processorTime(t)
	elements, snapshots := 0, 0
	j := journal.New()
	for frame, err := range past.Play(time.Time{}) {
		if err != nil {
			if !errors.Is(err, recording.ErrTooLarge) {
				t.Error(err)
			}
			t.Log(err)
			break
		}
		if s := frame.Snapshot; s != nil {
			snapshots++
			for i := range s.Locks {
				elements += 1 + len(s.Locks[i].Holders) + len(s.Locks[i].Waiters)
			}
			events := j.See(s, frame.Ended...)
			if snapshots > 2 {
				continue // the others cost the same
			}
			if err := errors.Join(view.EventsNDJSON(io.Discard, events), view.JSON(io.Discard, s)); err != nil {
				t.Error(err)
			}
		}
	}
	if most := recording.FreeElements + recording.ElementsPerByte*int(info.Size()); elements > most {
		t.Errorf("%d elements of %d bytes, want at most %d", elements, info.Size(), most)
	}
	t.Logf("%d snapshots, %d elements; %v", snapshots, elements, past.Damaged())
	replayed := processorTime(t)
	t.Logf("replay: %.2f s of processor time per MiB", (replayed-began).Seconds()/float64(info.Size())*(1<<20))
	if snapshots > 0 {
		if _, err := report.Of(past, time.Time{}, time.Now()); err != nil {
			t.Log(err)
		}
	}
	t.Logf("report: %.2f s of processor time per MiB", (processorTime(t)-replayed).Seconds()/float64(info.Size())*(1<<20))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("heap %d\n", m.HeapSys)
}

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
