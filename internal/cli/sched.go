package cli

import (
	"github.com/spf13/cobra"
)

// Sched runs the command line of sched and returns the exit code.
func Sched(p Process) int {
	return p.execute(schedCommand(p.Environ))
}

func schedCommand(environ []string) *cobra.Command {
	root := group("sched", "Operates the tasks of a Postgres database",
		devCommand(environ),
		enqueueCommand(environ),
		tasksCommand(environ),
		explainCommand(environ),
		workersCommand(environ),
		queuesCommand(environ),
		schedulesCommand(environ),
		batchesCommand(environ),
		pressureCommand(environ),
		assignmentsCommand(environ),
		topologyCommand(environ),
		canaryCommand(environ),
		decisionsCommand(environ),
		actionsCommand(environ),
		auditCommand(environ),
		applyCommand(environ),
		exportCommand(environ),
		migrateCommand(environ),
		doctorCommand(environ),
		benchCommand(environ),
		simulateCommand(environ),
		topCommand(environ),
		completionCommand(),
		versionCommand("sched"),
	)
	root.Long = `sched operates what sched-sidecar runs on: it makes and upgrades the schema sched,
enqueues tasks, shows and changes tasks, workers, queues and batches, and tells how
tasks are routed, what was decided and who intervened.

The database is that of --dsn, SCHED_DATABASE_URL (or the file that
SCHED_DATABASE_URL_FILE names), DATABASE_URL or the PG* variables, in this order.

` + schedExitCodesHelp

	adviseOnConnections(root, environ)

	return withVersion(root)
}
