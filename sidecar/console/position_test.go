package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPositionInAnAddress(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1796018111377281)
	for _, p := range []position{{ID: 7}, {ID: 7, At: at}, {ID: 7, At: at, Priority: 4, Queue: "mail|a.b"}, newest()} {
		again, ok := parsePosition(p.String(), !p.At.IsZero())
		require.True(t, ok, p)
		require.Equal(t, p.String(), again.String())
		_, ok = parsePosition(p.String(), p.At.IsZero())
		require.False(t, ok, "of another list")
	}
	for _, text := range []string{"", "x", "0", "-1", "7.x.1.q", "7.-1.1.q", "7.1.x.q", "7.1.99999.q", "7.999999999999999999.1.q", "7.1", "7.1.1.\x00"} {
		_, ok := parsePosition(text, len(text) > 2)
		require.False(t, ok, text)
	}
}
