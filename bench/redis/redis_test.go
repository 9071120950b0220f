package redis_test

import (
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// slice is how long one library runs before the next gets its turn, so that all meet the same noise.
const slice = 500 * time.Millisecond

// measure runs the named peers in turns and returns how many pairs each did in a second.
func measure(b *testing.B, goroutines int, names ...string) map[string]float64 {
	server := testenv.NewRedis(b)
	made := map[string]peer{}
	for _, name := range names {
		made[name] = peers[name](b, server.Addr())
		defer made[name].close()
		pairs(b, made[name], goroutines, slice/5) // connections and scripts
	}
	total := map[string]int{}
	rounds := 0
	for b.Loop() {
		rounds++
		for _, name := range names {
			total[name] += pairs(b, made[name], goroutines, slice)
		}
	}
	rates := map[string]float64{}
	for name, n := range total {
		rates[name] = float64(n) / (time.Duration(rounds) * slice).Seconds()
		b.ReportMetric(rates[name], name+"-pairs/s")
	}
	return rates
}

// BenchmarkRedisLatency compares one goroutine's lock and unlock with the bare commands. A ratio of 1.1 is ten percent
// slower.
func BenchmarkRedisLatency(b *testing.B) {
	rates := measure(b, 1, "bare", "pglock")
	b.ReportMetric(rates["bare"]/rates["pglock"], "times-bare")
}

// BenchmarkRedisThroughput compares 512 goroutines on keys of their own with the best of the other libraries.
func BenchmarkRedisThroughput(b *testing.B) {
	rates := measure(b, 512, "bare", "pglock", "rueidislock", "redsync", "bsm")
	b.ReportMetric(rates["pglock"]/max(rates["rueidislock"], rates["redsync"], rates["bsm"]), "times-best")
}
