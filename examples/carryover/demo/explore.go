package main

// explore says where everything is that was left up.
func explore(st *stage) {
	st.out.print("")
	st.out.print("Everything is still up. Ctrl-C clears it away.")
	st.out.print("")
	st.out.print("  psql '%s'", st.postgres.DSN())
	for _, p := range st.pairs {
		if p.sidecar == nil {
			continue
		}
		if _, ended := p.sidecar.ended(); !ended { // any of them shows the whole fleet
			st.out.print("  console    http://%s/console/", p.admin)
			break
		}
	}
	for _, p := range st.pairs {
		for _, c := range []struct {
			process *process
			address string
		}{{p.app, p.appAddr}, {p.sidecar, p.admin}} {
			if c.process == nil {
				continue
			}
			state := "up"
			if how, ended := c.process.ended(); ended {
				state = how
			}
			st.out.print("  %-10s http://%s  pid %d, %s, log %s", c.process.name, c.address, c.process.pid(), state, c.process.log)
		}
	}
	st.out.print("")
	st.out.print("Try in psql:")
	for _, query := range []string{
		"select * from sched.batch;",
		"select id, state, reason, started_at, ended_at, pid from sched.worker;",
		"select * from sched.attempt where outcome in ('rescued', 'retry') order by start_time;",
		"select id, status, attempt, worker_id, output from sched.task where attempt > 1;",
		"select * from books.audit where task_id in (select task_id from books.audit where attempt > 1) order by task_id, at;",
		"select sched.enqueue('carryover', '{\"batch\": 0}');  -- no such orders: cancelled, with the reason in sched.task",
	} {
		st.out.print("  %s", query)
	}
}
