package supervise

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort finds a port of 127.0.0.1 that is free now; another process may still take it first. It is below the ports
// that Linux and macOS use for outgoing connections (net.ipv4.ip_local_port_range, net.inet.ip.portrange.first), since
// one of these could take it while a server restarts.
func FreePort() (int, error) {
	const lowest, highest, tries = 10_000, 32_000, 100
	for range tries {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("none of %d ports of 127.0.0.1 between %d and %d is free", tries, lowest, highest)
}
