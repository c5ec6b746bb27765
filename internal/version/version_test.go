package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}

	tests := []struct {
		name, stamp string
		build       debug.BuildInfo
		want        string
	}{
		{"nothing recorded", "", debug.BuildInfo{GoVersion: "go1.26.0"}, "dev (go1.26.0, " + platform + ")"},
		{"go build in a work tree", "", debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"}, Settings: vcs}, "dev (commit 0123456789ab with changes, go1.26.0, " + platform + ")"},
		{"go install", "", debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3 (go1.26.0, " + platform + ")"},
		{"make build", "v1.2.3-4-gabc", debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.0.0-2026"}, Settings: vcs[:1]}, "v1.2.3-4-gabc (commit 0123456789ab, go1.26.0, " + platform + ")"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, infoOf(tt.stamp, &tt.build).String())
		})
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Get().Version)
	require.Equal(t, runtime.Version(), Get().Go)
}
