// Package version says which build of sched this is. `make build` stamps it; a
// binary of `go install` takes it from what Go recorded in it.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// stamped is set by the linker: -ldflags "-X …/internal/version.stamped=v1.2.3".
var stamped string //nolint:gochecknoglobals // the linker can set nothing else

// commitLength is how much of a commit's hash is shown.
const commitLength = 12

// Info describes a build.
type Info struct {
	Version string // v1.2.3, a pseudo-version, or dev
	Commit  string // the commit's short hash; empty when not recorded
	Dirty   bool   // built with changes that aren't committed
	Go      string // go1.26.8
}

// Get returns what is known of the running binary.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}

	return infoOf(stamped, build)
}

func infoOf(stamp string, build *debug.BuildInfo) Info {
	info := Info{Version: "dev", Go: build.GoVersion}
	if info.Go == "" {
		info.Go = runtime.Version()
	}
	if v := build.Main.Version; v != "" && v != "(devel)" {
		info.Version = v
	}
	if stamp != "" {
		info.Version = stamp
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value[:min(len(s.Value), commitLength)]
		case "vcs.modified":
			info.Dirty = s.Value == "true"
		}
	}

	return info
}

// String is one line: v1.2.3 (commit 0123456789ab, go1.26.8, linux/amd64).
func (i Info) String() string {
	commit := ""
	if i.Commit != "" {
		commit = "commit " + i.Commit
		if i.Dirty {
			commit += " with changes"
		}
		commit += ", "
	}

	return fmt.Sprintf("%s (%s%s, %s/%s)", i.Version, commit, i.Go, runtime.GOOS, runtime.GOARCH)
}
