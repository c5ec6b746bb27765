package fleettest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// FreeAddress is an address, host:port, on which nothing listens. Its port is below
// the range from which the system takes ports for outgoing connections and for those
// who ask for any, so that nobody is given it meanwhile.
func FreeAddress(t *testing.T) string {
	t.Helper()
	const attempts, lowest, ports = 100, 20_000, 10_000
	for range attempts {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(ports))
		if listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
	require.FailNow(t, "no port is free between 20000 and 30000")
	return ""
}
