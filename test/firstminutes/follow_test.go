package firstminutes_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// The README's sections with commands, and how a reader follows each. A section that isn't here fails the tests, and each
// function below says how many blocks it runs.
const (
	intro        = "sched"
	seeItWork    = "See it work"
	firstMinutes = "First five minutes"
	useIt        = "Use it"
	rely         = "What you can rely on"
)

// followers run a section's blocks in dir, which is a clone or looks like one.
var followers = map[string]func(t *testing.T, dir string, blocks []string){
	intro:        followIntro,
	seeItWork:    lookAtWork,
	firstMinutes: followFirstMinutes,
	useIt:        followUse,
	rely:         followReliance,
}

// commands are the README's blocks of commands by section.
func commands(t *testing.T, dir string) map[string][]string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	found := map[string][]string{}
	heading := regexp.MustCompile("^#+ (.*)$")
	// Something that looks like a command is one, whatever its block says.
	command := regexp.MustCompile(`(?im)^\s*(\$ |export |make |psql |go |curl |\./bin/|sched |sched-sidecar |select |insert |update |begin;)`)
	section, language, block := "", "", []string(nil)
	fenced := false
	for _, line := range strings.Split(string(readme), "\n") {
		rest, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !fenced:
			fenced, language, block = true, rest, nil
		case fence:
			fenced = false
			text := strings.Join(block, "\n")
			switch language {
			case "sh", "sql":
				found[section] = append(found[section], text)
			case "":
				require.NotRegexp(t, command, text, "a block of commands in section %q needs its language, sh or sql", section)
			default:
				require.Fail(t, "a block in a language that no test runs", "section %q, language %q", section, language)
			}
		case fenced:
			block = append(block, line)
		default:
			if match := heading.FindStringSubmatch(line); match != nil {
				section = match[1]
			}
		}
	}
	require.False(t, fenced, "an open block")
	return found
}

// shell runs a block in another terminal.
func shell(t *testing.T, dir, block string, env ...string) (string, error) {
	t.Helper()
	terminal := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block)
	terminal.Dir = dir
	terminal.Env = append(environ(), env...)
	out, err := terminal.CombinedOutput()
	return string(out), err
}

// query runs a block of SQL as psql does, which stops at the first mistake.
func query(t *testing.T, dsn, sql string) (string, error) {
	t.Helper()
	client := exec.CommandContext(t.Context(), "psql", dsn, "-X", "-v", "ON_ERROR_STOP=1")
	client.Stdin = strings.NewReader(sql)
	client.Env = environ()
	out, err := client.CombinedOutput()
	return string(out), err
}

func followIntro(t *testing.T, _ string, blocks []string) {
	t.Helper()
	require.Len(t, blocks, 1)
	db := connect(t, database(t))
	_, err := db.Exec(t.Context(), "create table orders (id bigserial primary key, customer text, total numeric)")
	require.NoError(t, err)
	count := func() (tasks, orders int) {
		row := db.QueryRow(t.Context(), "select (select count(*) from sched.task where kind = 'send_invoice'), (select count(*) from orders)")
		require.NoError(t, row.Scan(&tasks, &orders))
		return tasks, orders
	}
	dsn := db.Config().ConnString()
	out, err := query(t, dsn, strings.Replace(blocks[0], "commit;", "rollback;", 1))
	require.NoError(t, err, out)
	tasks, orders := count()
	require.Zero(t, tasks+orders, "roll back, and it never did")
	out, err = query(t, dsn, blocks[0])
	require.NoError(t, err, out)
	tasks, orders = count()
	require.Equal(t, []int{1, 1}, []int{tasks, orders}, "commit, and the task exists")
}

// elsewhere are the commands that this test doesn't run.
var elsewhere = map[string]string{
	"make demo": "TestVerifyREADME runs it: it takes a minute or two",
	"make test": "runs this test",
}

// lookAtWork makes sure that both commands are there, and that they are run.
func lookAtWork(t *testing.T, _ string, blocks []string) {
	t.Helper()
	require.Len(t, blocks, 1)
	for line := range strings.Lines(blocks[0]) {
		command, _, _ := strings.Cut(line, "#")
		command = strings.TrimSpace(command)
		require.Contains(t, elsewhere, command, "a command that no test runs")
		out, err := shell(t, root(t), command+" --dry-run")
		require.NoError(t, err, out)
	}
}

func followFirstMinutes(t *testing.T, dir string, blocks []string) {
	t.Helper()
	timeFirstMinutes(t, dir, blocks)
}

// timeFirstMinutes returns how long each part took, and the CPU time of what it ran. The first block ends with what stays
// in the foreground, the second is for another terminal.
func timeFirstMinutes(t *testing.T, dir string, blocks []string) (untilUp, untilDone, cpu time.Duration) {
	t.Helper()
	require.Len(t, blocks, 2)
	data := "SCHED_DEV_DIR=" + dataDir(t)
	_, port, err := net.SplitHostPort(fleettest.FreeAddress(t))
	require.NoError(t, err)
	begun := time.Now()
	p := launch(t, func(cmd *exec.Cmd) {
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, data, "PORT="+port, "SCHED_ADMIN_ADDR=127.0.0.1:0") // two readers at once need two of each
	}, "bash", "-euo", "pipefail", "-c", blocks[0])
	p.awaitWithin(t, compiling, "\n  export DSN=")
	untilUp = time.Since(begun)

	begun = time.Now()
	out, err := shell(t, dir, blocks[1], data)
	require.NoError(t, err, out)
	require.Regexp(t, `(?m)^Task 1 of kind hello is [a-z]+ `, out, "it is explained")
	require.Regexp(t, `(?m)^ +1 \| hello \| [a-z]+ `, out, "the task is shown")
	requireGreeted(t, dsnOf(t, p))
	untilDone = time.Since(begun)

	p.press(syscall.SIGINT)
	p.exit(t)
	p.requireNothingLeft(t)
	return untilUp, untilDone, p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// requireGreeted waits until the example's task is done.
func requireGreeted(t *testing.T, dsn string) {
	t.Helper()
	db := connect(t, dsn)
	var greeting string
	require.Eventually(t, func() bool {
		row := db.QueryRow(t.Context(), "select output->>'greeting' from sched.task where status = 'completed'")
		return row.Scan(&greeting) == nil
	}, patience, 10*time.Millisecond)
	require.Equal(t, "Hello, Ann!", greeting)
	require.NoError(t, db.Close(t.Context()))
}

// followUse follows "Use it" with a database and ports of this test's own: those that the README names may be in use.
func followUse(t *testing.T, dir string, blocks []string) {
	t.Helper()
	require.Len(t, blocks, 2)
	const example, port = "postgres://localhost:5432/app", "8080"
	dsn := emptyDatabase(t)
	_, ownPort, err := net.SplitHostPort(fleettest.FreeAddress(t))
	require.NoError(t, err)
	for i, block := range blocks {
		require.Contains(t, block, example)
		blocks[i] = strings.ReplaceAll(strings.ReplaceAll(block, example, "'"+dsn+"'"), port, ownPort)
	}
	require.Contains(t, blocks[0], ":"+ownPort)
	p := launch(t, func(cmd *exec.Cmd) {
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, "PORT="+ownPort, "SCHED_ADMIN_ADDR=127.0.0.1:0")
	}, "bash", "-euo", "pipefail", "-c", blocks[0])
	p.awaitWithin(t, compiling, "sidecar ready")

	out, err := shell(t, dir, blocks[1])
	require.NoError(t, err, out)
	require.Regexp(t, `(?m)^ +1 \| hello \| [a-z]+ `, out, "the task is shown")
	require.Regexp(t, `(?m)^Task 1 of kind hello is [a-z]+ `, out, "it is explained")
	requireGreeted(t, dsn)
	p.press(syscall.SIGINT)
	require.Zero(t, p.exit(t))
}

// followReliance completes the README's task 42 with the README's lease.
func followReliance(t *testing.T, _ string, blocks []string) {
	t.Helper()
	require.Len(t, blocks, 1)
	db := connect(t, database(t))
	dsn := db.Config().ConnString()
	lease := regexp.MustCompile(`sched\.complete\((\d+), '((.+)\.(\d+))'\)`).FindStringSubmatch(blocks[0])
	require.Len(t, lease, 5)
	for _, sql := range []string{
		"create table accounts (id bigint primary key, balance numeric)",
		"insert into accounts values (7, 100)",
		"select sched.enqueue('withdraw')",
	} {
		_, err := db.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	// The claim that this lease is of.
	_, err := db.Exec(t.Context(), `update sched.river_job set id = $1::text::bigint, state = 'running', attempt = 1, attempted_by = array[$2::text],
		attempted_at = (sched.parse_lease($3)).attempted_at`, lease[1], lease[3], lease[2])
	require.NoError(t, err)
	requireState := func(status string, balance int) {
		t.Helper()
		var haveStatus string
		var haveBalance int
		row := db.QueryRow(t.Context(), "select status::text, (select balance::integer from accounts where id = 7) from sched.task")
		require.NoError(t, row.Scan(&haveStatus, &haveBalance))
		require.Equal(t, status, haveStatus)
		require.Equal(t, balance, haveBalance)
	}
	out, err := query(t, dsn, blocks[0])
	require.NoError(t, err, out)
	requireState("completed", 90)
	out, err = query(t, dsn, blocks[0])
	require.Error(t, err, "the lease is spent")
	require.Contains(t, out, "does not own task")
	requireState("completed", 90)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}
