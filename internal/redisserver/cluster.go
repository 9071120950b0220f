package redisserver

import (
	"fmt"
	"strconv"
	"strings"
)

const slots = 16384

// JoinCluster makes a Redis Cluster of empty servers that run with "cluster-enabled yes". They share the slots equally. The
// Cluster is ready some time later; see [ClusterReady].
func JoinCluster(servers ...*Server) error {
	for i, s := range servers {
		for _, command := range [][]string{
			{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i * slots / len(servers)), strconv.Itoa((i+1)*slots/len(servers) - 1)},
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			{"CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(servers[0].Port())},
		} {
			if _, err := s.Do(command...); err != nil {
				return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
			}
		}
	}
	return nil
}

// ClusterReady reports whether each of the servers knows the others and serves its slots.
func ClusterReady(servers ...*Server) (bool, error) {
	for _, s := range servers {
		info, err := s.Do("CLUSTER", "INFO")
		if err != nil || !strings.Contains(info, "cluster_state:ok") ||
			!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(servers))) {
			return false, err
		}
	}
	return true, nil
}
