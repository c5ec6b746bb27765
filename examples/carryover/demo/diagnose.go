package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	diagnosisLimit = 5 * time.Second // a broken demo mustn't hang on its diagnosis
	diagnosisTail  = 12              // lines of each log
)

// diagnosis is what to ask a database whose month doesn't end; each gives lines of text.
var diagnosis = []struct{ title, query string }{
	{"tasks by status", `select status || ': ' || count(*) from sched.task group by status order by status`},
	{"workers", `select id || ' pid ' || coalesce(pid::text, '?') || ' ' || state || ', heartbeat '
	     || coalesce(round(extract(epoch from now() - heartbeat_at), 1) || ' s ago', 'never') || coalesce(', ' || reason, '')
	     from sched.worker order by started_at`},
	{"unfinished tasks", `select 'task ' || id || ' ' || status || ', attempt ' || attempt || ', worker ' || coalesce(worker_id, 'none')
	     || ', run at ' || run_at || coalesce(', error: ' || left(error::text, 300), '')
	     from sched.task where end_time is null order by id limit 5`},
	{"last errors", `select 'task ' || task_id || ' attempt ' || attempt || ' ' || outcome || ': ' || left(error::text, 300)
	     from sched.attempt where error is not null order by start_time desc limit 5`},
}

// diagnose prints what a person needs to see why the demo failed.
func diagnose(ctx context.Context, st *stage) {
	ctx, cancel := context.WithTimeout(ctx, diagnosisLimit)
	defer cancel()
	if st.pool != nil {
		for _, d := range diagnosis {
			st.out.print("-- %s", d.title)
			rows, err := st.pool.Query(ctx, d.query)
			var lines []string
			if err == nil {
				lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			switch {
			case err != nil:
				lines = []string{"can't tell: " + err.Error()}
			case len(lines) == 0:
				lines = []string{"none"}
			}
			for _, line := range lines {
				st.out.print("   %s", line)
			}
		}
	}
	for _, c := range st.children() {
		state := "running"
		if how, ended := c.ended(); ended {
			state = how
		}
		st.out.print("-- %s (pid %d, %s), end of %s", c.name, c.pid(), state, c.log)
		for _, line := range tail(c.log, diagnosisTail) {
			st.out.print("   %s", line)
		}
	}
	st.out.print("-- all logs stay in %s", st.dir)
}
