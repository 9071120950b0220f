package exporter

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pglock-toolkit/pglock/monitor"
)

// counted returns the counters of waits by key and application, as the second of two scrapes shows them.
func counted(t *testing.T, c *waitCounters) (waits, seconds map[string]float64) {
	t.Helper()
	for range 2 {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collector{waits: c, keys: newKeyLabels(0), rowKeys: newKeyLabels(0)})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		waits, seconds = map[string]float64{}, map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				labels := metric.GetLabel() // sorted by name
				switch family.GetName() {
				case "pglock_waits_total":
					waits[labels[2].GetValue()+" "+labels[0].GetValue()] = metric.GetCounter().GetValue()
				case "pglock_wait_seconds_total":
					seconds[labels[2].GetValue()+" "+labels[0].GetValue()] = metric.GetCounter().GetValue()
				}
			}
		}
	}
	return waits, seconds
}

// scene is a snapshot, at some second, of sessions that wait for keys.
type scene struct {
	locks map[int64]*monitor.Lock
	at    time.Time
}

func newScene(second int) scene {
	return scene{map[int64]*monitor.Lock{}, time.Unix(int64(1_700_000_000+second), 0)}
}

func (s scene) waits(key int64, pid int32, application string, since int) scene {
	if s.locks[key] == nil {
		s.locks[key] = &monitor.Lock{Key: fmt.Sprint("@", key), Objsubid: 1, Number: key, Database: "shop"}
	}
	waiter := monitor.Waiter{Session: monitor.Session{PID: pid, Application: application}}
	if since >= 0 {
		began := newScene(since).at
		waiter.WaitingSince = &began
	}
	s.locks[key].Waiters = append(s.locks[key].Waiters, waiter)
	return s
}

func (s scene) snapshot() *monitor.Snapshot {
	snapshot := &monitor.Snapshot{TakenAt: s.at, Database: "shop"}
	for _, lock := range s.locks {
		snapshot.Locks = append(snapshot.Locks, *lock)
	}
	return snapshot
}

func TestWaitsAreCountedOnceAndMeasuredFromTheirBeginning(t *testing.T) {
	c := newWaitCounters(time.Second)
	for _, s := range []scene{
		newScene(10).waits(7, 1, "shop (pglock 0123abcd)", 4).waits(7, 2, "shop", -1), // the server does not know yet since when
		newScene(12).waits(7, 1, "shop (pglock 0123abcd)", 4).waits(7, 2, "shop", 9),
		newScene(13).waits(7, 2, "shop", 9).waits(8, 1, "shop", 12),
		newScene(13), // the same moment, and no waits
		newScene(15).waits(8, 1, "shop", 14),
		newScene(17).waits(8, 1, "shop", 16), // it has waited again
		newScene(16).waits(8, 1, "shop", 16), // the server's clock was set
	} {
		c.note(s.snapshot())
	}
	waits, seconds := counted(t, c)
	if waits["@7 shop"] != 2 || seconds["@7 shop"] != 8+4 {
		t.Errorf("key 7 has %v waits of %v seconds", waits["@7 shop"], seconds["@7 shop"])
	}
	if waits["@8 shop"] != 3 || seconds["@8 shop"] != 1+1+1 {
		t.Errorf("key 8 has %v waits of %v seconds", waits["@8 shop"], seconds["@8 shop"])
	}
}

func TestWaitsOfManyKeysAndApplicationsHaveABoundedNumberOfSeries(t *testing.T) {
	c := newWaitCounters(time.Second)
	s := newScene(10)
	for i := range 3000 {
		s.waits(int64(i), int32(i), fmt.Sprint("application ", i), 9)
	}
	snapshot := s.snapshot()
	for range 2 {
		c.note(snapshot)
	}
	waits, _ := counted(t, c)
	sum := 0.0
	for _, n := range waits {
		sum += n
	}
	if sum != 3000 || len(waits) > maxCountedKeys+maxCountedApplications+1 || waits["other other"] < 2800 {
		t.Errorf("%v waits have %d series, %v of them other", sum, len(waits), waits["other other"])
	}
}

func TestWaitsThatAreExpectedAreNotCounted(t *testing.T) {
	c := newWaitCounters(time.Second)
	snapshot := newScene(10).waits(7, 1, "shop", 4).snapshot()
	snapshot.Locks[0].Kind, snapshot.Locks[0].Waiters[0].Expected = "leader", true
	c.note(snapshot)
	if waits, _ := counted(t, c); len(waits) > 0 {
		t.Errorf("there are %v", waits)
	}
}
