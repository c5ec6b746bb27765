// Command sched-sidecar runs beside an app: it claims tasks from Postgres,
// delivers them to the app, and records how each attempt ended.
package main

import (
	"os"
	"runtime/debug"

	"github.com/sched-sidecar/sched/internal/cli"
)

// gcPercent is what GOGC is where nobody says: a sidecar has some MB alive, and Go's 100
// would have it collect many times a second while tasks flow.
const gcPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(cli.Sidecar(cli.ThisProcess(os.Exit)))
}
