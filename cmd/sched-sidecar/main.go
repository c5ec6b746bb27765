// Command sched-sidecar runs beside an app: it claims tasks from Postgres,
// delivers them to the app, and records how each attempt ended.
package main

import (
	"os"

	"github.com/sched-sidecar/sched/internal/cli"
)

func main() {
	os.Exit(cli.Sidecar(cli.ThisProcess(os.Exit)))
}
