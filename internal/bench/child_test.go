package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutputFindsTheFirstAddress(t *testing.T) {
	t.Parallel()
	o := newOutput()
	for _, piece := range []string{
		"starting\n{\"msg\":\"no address\"}\n{\"msg\":\"admin\",", "\"addr\":\"127.0", ".0.1:1\"}\n{\"addr\":\"127.0.0.1:2\"}\n",
	} {
		n, err := fmt.Fprint(o, piece)
		require.NoError(t, err)
		require.Len(t, piece, n)
	}
	require.Equal(t, "127.0.0.1:1", <-o.addr)
	require.Empty(t, o.addr)
}

func TestOutputKeepsTheEnd(t *testing.T) {
	t.Parallel()
	o := newOutput()
	_, err := fmt.Fprint(o, strings.Repeat("x", 3*tailBytes))
	require.NoError(t, err)
	_, err = fmt.Fprint(o, "the end\n")
	require.NoError(t, err)
	require.Less(t, len(o.tail()), tailBytes+1)
	require.True(t, strings.HasSuffix(o.tail(), "the end"))
}

func TestAProcessThatEndsAtItsStartIsAnError(t *testing.T) {
	t.Parallel()
	_, err := startChild(t.Context(), "app", []string{"/bin/sh", "-c", "echo no port left; exit 3"}, nil)
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "no port left")
	_, err = startChild(t.Context(), "app", []string{"/nonexistent"}, nil)
	require.ErrorContains(t, err, "starting the app")
}

func TestStopTellsHowAProcessEnded(t *testing.T) {
	t.Parallel()
	c, err := startChild(t.Context(), "app", []string{"/bin/sh", "-c", `trap 'exit 4' TERM; echo '{"addr":"nowhere"}'; read x; exit 5`}, nil)
	require.NoError(t, err)
	require.Equal(t, "nowhere", c.addr)
	require.ErrorContains(t, c.stop(), "the app ended with exit status")
}
