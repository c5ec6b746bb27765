// Command sched operates the tasks of a Postgres database: it makes and upgrades
// the schema that sidecars and producers work with.
package main

import (
	"os"

	"github.com/sched-sidecar/sched/internal/cli"
)

func main() {
	os.Exit(cli.Sched(cli.ThisProcess(os.Exit)))
}
