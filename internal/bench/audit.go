package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/sql/audit"
)

// AuditConfig is how much there is to ask about.
type AuditConfig struct {
	Rows int // archived tasks, spread over 90 days
}

func defaultAudit() AuditConfig { return AuditConfig{Rows: 5_000_000} }

const (
	auditRowsMax = 50_000_000
	auditBound   = 200 // ms
	auditDays    = 90
	auditBatch   = 250_000
)

func (c AuditConfig) validate() error {
	if c.Rows < 1 || c.Rows > auditRowsMax {
		return fmt.Errorf("--rows %d is out of range 1..%d", c.Rows, auditRowsMax)
	}
	return nil
}

// audit asks every question of sql/audit with its defaults. What counts is the slowest.
func (r *Runner) audit(ctx context.Context) (err error) {
	rows := r.config.Audit.Rows
	err = r.report.limits("audit", []limit{
		{"archived tasks", strconv.Itoa(rows) + " over " + strconv.Itoa(auditDays) + " days"},
		{"of them", "2 % discarded, 1 % cancelled, 3 % claimed more than once, 0.5 % had a worker die"},
		{"parameters", "each question's defaults: a day, or an hour for runs and scaling"},
		{"planned for", "its arguments, without JIT, as sched audit run does"},
	})
	if err != nil {
		return err
	}
	db, err := r.server.createDatabase(ctx, "audit")
	if err != nil {
		return err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return err
	}
	if err := r.fillArchive(ctx, db, rows); err != nil {
		return err
	}
	questions, err := audit.Questions()
	if err != nil {
		return err
	}
	var worst float64
	for _, q := range questions {
		took, answers, err := db.timeAudit(ctx, q, rows, r.config.Rounds)
		if err != nil {
			return fmt.Errorf("audit %s: %w", q.Name, err)
		}
		r.report.note("audit %-14s %8.1f ms  %5d rows", q.Name, took, answers)
		worst = max(worst, took)
	}
	return r.report.add(newFigure("see.audit.max_ms", worst, "ms", AtMost(auditBound), r.config.Rounds))
}

// timeAudit returns the median over the rounds after one that warms up, in
// milliseconds, and how many rows the answer has.
func (d *database) timeAudit(ctx context.Context, q audit.Question, rows, rounds int) (took float64, answers int, err error) {
	values := map[string]string{}
	if slices.ContainsFunc(q.Params, func(p audit.Param) bool { return p.Type == audit.ID }) {
		values["task"] = strconv.Itoa(max(rows/100*99/100*100, 1)) // claimed more than once
	}
	args, err := q.Bind(values, func(text string) (time.Time, error) {
		if text == "now" {
			return time.Now(), nil
		}
		hours := strings.NewReplacer("7d", "168h").Replace(text)
		ago, err := time.ParseDuration(hours)
		return time.Now().Add(-ago), err
	})
	if err != nil {
		return 0, 0, err
	}
	var all []float64
	for round := range rounds + 1 {
		began := time.Now()
		err := pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "set local jit = off"); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, q.SQL, pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs(args))
			answers = int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return 0, 0, err
		}
		if round > 0 {
			all = append(all, float64(time.Since(began))/float64(time.Millisecond))
		}
	}
	return median(all), answers, nil
}

// auditMonthsSQL makes the partitions that a leader would have made in time.
const auditMonthsSQL = `do $$ declare m timestamp; begin
	for m in select generate_series(date_trunc('month', now() at time zone 'UTC') - interval '4 months', date_trunc('month', now() at time zone 'UTC') + interval '1 month', interval '1 month') loop
		execute format('create table sched.%I partition of sched.task_archive for values from (%L) to (%L)', 'task_archive_' || to_char(m, 'YYYY_MM'),
			m at time zone 'UTC', (m + interval '1 month') at time zone 'UTC');
	end loop;
end $$`

// auditFillSQL archives tasks $1 to $2 of $3, the last of which ends now.
const auditFillSQL = `insert into sched.task_archive (id, kind, queue, status, start_time, end_time, worker_id, host, attempt, max_attempts, priority, run_at, created_at,
		last_logged, args, metadata, errors, attempts, attempted_by, tags)
	select g, 'kind_' || g % 20, 'queue_' || g % 5, s.status, e.at - (g % 500) * interval '1 ms', e.at, 'w-' || g % 200, 'host-' || g % 50,
		case when g % 100 in (0, 1, 2) then 2 else 1 end, 25, 1, e.at - (g % 900) * interval '10 ms', e.at - (g % 900) * interval '10 ms', false,
		jsonb_build_object('order', g, 'customer', 'customer ' || g % 10000),
		jsonb_build_object('sched:by', jsonb_build_object('user', 'role_' || g % 7, 'app', 'shop'), 'output', jsonb_build_object('sent', true))
			|| case when g % 200 = 0 then '{"sched:lost": 1}' else '{}' end::jsonb || case when g % 10 = 0 then jsonb_build_object('sched:batch', 'batch_' || g / 1000) else '{}' end,
		case when s.status <> 'completed' then array[jsonb_build_object('attempt', 1, 'error', 'no answer from ' || g % 30)] end,
		case when g % 100 in (0, 1, 2) then jsonb_build_array(jsonb_build_object('attempt', 1, 'worker_id', 'w-' || (g + 1) % 200, 'host', 'host-1', 'started_at', e.at - interval '1 minute',
			'ended_at', e.at - interval '50 s', 'outcome', case when g % 200 = 0 then 'rescued' else 'retry' end, 'error', 'worker w-x died while it ran this task')) end,
		case when g % 100 in (0, 1, 2) then array['w-' || (g + 1) % 200, 'w-' || g % 200] else array['w-' || g % 200] end, '{}'
	from generate_series($1::bigint, $2::bigint) as g
	cross join lateral (select now() - ($3::bigint - g) * ($4::float8 * interval '1 day' / $3::bigint) as at) as e
	cross join lateral (select (case when g % 100 in (10, 11) then 'discarded' when g % 100 = 12 then 'cancelled' else 'completed' end)::sched.river_job_state as status) as s`

func (r *Runner) fillArchive(ctx context.Context, db *database, rows int) error {
	if _, err := db.pool.Exec(ctx, auditMonthsSQL); err != nil {
		return fmt.Errorf("making partitions: %w", err)
	}
	for done := 0; done < rows; done += auditBatch {
		last := min(done+auditBatch, rows)
		if _, err := db.pool.Exec(ctx, auditFillSQL, done+1, last, rows, auditDays); err != nil {
			return fmt.Errorf("filling the archive: %w", err)
		}
		r.report.note("audit: %d of %d tasks archived", last, rows)
	}
	if _, err := db.pool.Exec(ctx, `insert into sched.decision (at, what, subject, who, from_value, to_value, reason)
		select now() - g * interval '1 s', 'slots', 'w-' || g % 200, 'w-' || g % 200, '1', '2', 'demand' from generate_series(1, $1::int) as g`, min(rows, 100_000)); err != nil {
		return fmt.Errorf("adding decisions: %w", err)
	}
	if _, err := db.pool.Exec(ctx, `insert into sched.operator_action (at, action, object_type, object)
		select now() - g * interval '1 minute', 'cancel', 'task', g::text from generate_series(1, $1::int) as g`, min(rows, 100_000)); err != nil {
		return fmt.Errorf("adding interventions: %w", err)
	}
	if _, err := db.pool.Exec(ctx, "vacuum analyze sched.task_archive, sched.decision, sched.operator_action"); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	return db.checkpoint(ctx)
}
