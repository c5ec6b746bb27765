package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// schedWith is sched with some SQL between the filled table and the start.
func (r *Runner) schedWith(name, sql string) contender {
	c := r.sched()
	c.name = name
	prepare := c.prepare
	c.prepare = func(ctx context.Context, db *database, tasks int) error {
		if err := prepare(ctx, db, tasks); err != nil {
			return err
		}
		if _, err := db.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		return nil
	}
	return c
}

// compared drains with the contenders in turns and returns, for each, the median
// over the rounds of its rate by that of the first.
func (r *Runner) compared(ctx context.Context, contenders ...contender) ([]float64, error) {
	rounds, err := r.drainRounds(ctx, contenders...)
	if err != nil {
		return nil, err
	}
	result := make([]float64, len(contenders))
	for k := range contenders {
		result[k] = median(ratios(rounds[k], rounds[0]))
	}
	return result, nil
}

// drainRounds drains with the contenders in turns and returns the rounds of each.
func (r *Runner) drainRounds(ctx context.Context, contenders ...contender) ([][]drained, error) {
	rounds := make([][]drained, len(contenders))
	for i := range r.config.Rounds {
		for k, c := range contenders {
			round, err := r.drainRound(ctx, c, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			rounds[k] = append(rounds[k], round)
			r.report.note("round %d of %d: %s %s", i+1, r.config.Rounds, c.name, round)
		}
	}
	return rounds, nil
}

// limits measures what limits cost that never bind: of rate and max_running
// together, and of max_running alone.
func (r *Runner) limits(ctx context.Context) ([]Figure, error) {
	const far = 1_000_000 // what the columns allow
	result, err := r.compared(ctx, r.sched(),
		r.schedWith("sched_limits", fmt.Sprintf("update sched.queue set rate = %d, burst = %d, max_running = %d where name = '%s'", far, far, far, schedQueue)),
		r.schedWith("sched_max_running", fmt.Sprintf("update sched.queue set max_running = %d where name = '%s'", far, schedQueue)))
	if err != nil {
		return nil, err
	}
	return []Figure{
		newFigure("routing.limits.vs_off", result[1], "ratio", Bound{}, r.config.Rounds),
		newFigure("routing.max_running.vs_off", result[2], "ratio", Bound{}, r.config.Rounds),
	}, nil
}

// heads measures what many tasks of a kind that may not run now do to those behind
// them in the queue: of one that is paused, and of one whose limit is used up.
func (r *Runner) heads(ctx context.Context) ([]Figure, error) {
	result, err := r.compared(ctx, r.sched(),
		r.behind("sched_behind_paused", `insert into sched.flow (scope, name, paused_until, pause_reason, paused_by)
			values ('kind', '`+headKind+`', now() + interval '1 day', 'its app said so', 'bench')`),
		r.behind("sched_behind_limited", `insert into sched.kind (kind, rate, burst) values ('`+headKind+`', 0.001, 1)`))
	if err != nil {
		return nil, err
	}
	return []Figure{
		newFigure("routing.paused_head.vs_clear", result[1], "ratio", AtLeast(headBound), r.config.Rounds),
		newFigure("routing.limited_head.vs_clear", result[2], "ratio", AtLeast(headBound), r.config.Rounds),
	}, nil
}

const (
	headKind  = "held-up"
	headBound = 0.8
)

// behind drains what lies behind many tasks of a kind that a statement keeps from
// running.
func (r *Runner) behind(name, hold string) contender {
	c := r.sched()
	c.name = name
	c.counted = "kind = '" + noopKind + "'"
	c.prepare = func(ctx context.Context, db *database, tasks int) error {
		if err := migrateSched(ctx, db); err != nil {
			return err
		}
		if _, err := db.pool.Exec(ctx, hold); err != nil {
			return fmt.Errorf("holding a kind up: %w", err)
		}
		if err := fillKind(ctx, db, headKind, r.config.Routing.Paused); err != nil {
			return err
		}
		return fillSched(ctx, db, tasks)
	}
	return c
}

// Release is the programs of another release, as commands.
type Release struct{ Sched, Sidecar []string }

// releaseBefore is the last commit before the routing layer.
const releaseBefore = "222c74e"

// before compares a drain with that of the release before the routing layer, schema
// and sidecar, and this release's app.
func (r *Runner) before(ctx context.Context) (figures []Figure, err error) {
	release := r.config.Routing.Before
	if release.Sidecar == nil {
		dir, err := os.MkdirTemp("", "sched-bench-before")
		if err != nil {
			return nil, fmt.Errorf("building the release before: %w", err)
		}
		defer func() { err = closing(err, func() error { return os.RemoveAll(dir) }) }()
		if release, err = buildRelease(ctx, dir, releaseBefore); err != nil {
			if errors.Is(err, errNoRepository) {
				r.report.note("routing.drain.vs_before is left out: %v", err)
				return nil, nil
			}
			return nil, err
		}
	}
	result, err := r.compared(ctx, r.release("sched_before", release), r.sched())
	if err != nil {
		return nil, err
	}
	return []Figure{newFigure("routing.drain.vs_before", result[1], "ratio", AtLeast(0.95), r.config.Rounds)}, nil
}

// release is sched as another release has it.
func (r *Runner) release(name string, release Release) contender {
	c := r.sched()
	c.name = name
	c.prepare = func(ctx context.Context, db *database, tasks int) error {
		if err := run(ctx, "", append(append([]string{}, release.Sched...), "migrate", "up", "--no-roles", "--dsn", db.dsn)...); err != nil {
			return err
		}
		return fillSched(ctx, db, tasks)
	}
	start := r.schedCrew(release.Sidecar, r.config.Drain.Protocols[0])
	c.start = func(ctx context.Context, db *database, set sidecarOptions) (*crew, error) {
		set.before = true
		return start(ctx, db, set)
	}
	return c
}

// errNoRepository: the programs of another release can't be built from here.
var errNoRepository = errors.New("this isn't a clone of sched's repository with its history")

// buildRelease builds the programs of a commit from an archive of it, which leaves
// nothing behind in the repository.
func buildRelease(ctx context.Context, dir, commit string) (Release, error) {
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return Release{}, fmt.Errorf("%w: %w", errNoRepository, err)
	}
	root := strings.TrimSpace(string(top))
	if err := run(ctx, root, "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		return Release{}, fmt.Errorf("%w: %w", errNoRepository, err)
	}
	for _, step := range [][]string{
		{"git", "-C", root, "archive", "--format=tar", "--output=" + filepath.Join(dir, "source.tar"), commit},
		{"tar", "-xf", "source.tar"},
		{"go", "build", "-buildvcs=false", "-o", "bin" + string(filepath.Separator), "./cmd/sched", "./cmd/sched-sidecar"},
	} {
		if err := run(ctx, dir, step...); err != nil {
			return Release{}, fmt.Errorf("building the release before: %w", err)
		}
	}
	bin := filepath.Join(dir, "bin")
	return Release{Sched: []string{filepath.Join(bin, "sched")}, Sidecar: []string{filepath.Join(bin, "sched-sidecar"), "run"}}, nil
}

// run runs a command to its end; what it said is in the error.
func run(ctx context.Context, dir string, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command[:min(len(command), 3)], " "), err, out)
	}
	return nil
}
