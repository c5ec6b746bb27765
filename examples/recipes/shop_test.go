package recipes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// soon is ample time for what should happen at once, on a busy machine.
const soon = time.Minute

// tick is how often is looked for it.
const tick = 20 * time.Millisecond

const password = "not a secret & 'odd'" // one that has to be escaped

// shop is a database with the tables of shop.sql, and the login roles of its app and its sidecar.
type shop struct {
	db   *pgxpool.Pool // as a superuser
	name string        // of the database
	app  string        // login role of the app: owns the tables, is a sched_producer
	side string        // login role of the sidecar
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{db: pgtest.New(t)}
	s.name = s.db.Config().ConnConfig.Database
	s.app, s.side = s.role(t, "app"), s.role(t, "sidecar")
	s.exec(t, "grant sched_producer to "+s.app)
	s.exec(t, "grant sched_sidecar to "+s.side)
	s.exec(t, "grant create on schema public to "+s.app)
	s.script(t, "shop.sql")
	return s
}

// role makes a login role of this database's own, since roles belong to the whole server.
func (s *shop) role(t *testing.T, name string) string {
	t.Helper()
	role := pgx.Identifier{s.name + "_" + name}.Sanitize()
	s.exec(t, "create role "+role+" login password '"+strings.ReplaceAll(password, "'", "''")+"'")
	t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended
		_, err := s.db.Exec(ctx, "drop owned by "+role+" cascade")
		require.NoError(t, err)
		_, err = s.db.Exec(ctx, "drop role "+role)
		require.NoError(t, err)
	})
	return role
}

func (s *shop) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := s.db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// script runs a file as the app's role.
func (s *shop) script(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	s.exec(t, "set role "+s.app+";"+string(text)+";reset role")
}

func (s *shop) count(t *testing.T, from string) int {
	t.Helper()
	var n int
	require.NoError(t, s.db.QueryRow(t.Context(), "select count(*) from "+from).Scan(&n))
	return n
}

// url is the database's address over TCP, which every driver knows.
func (s *shop) url(role string) *url.URL {
	config := s.db.Config().ConnConfig
	host := config.Host
	if strings.HasPrefix(host, "/") {
		host = "127.0.0.1"
	}
	return &url.URL{
		Scheme: "postgres", User: url.UserPassword(strings.Trim(role, `"`), password),
		Host: net.JoinHostPort(host, strconv.Itoa(int(config.Port))), Path: "/" + s.name,
	}
}

// environ tells an app of a recipe where its database is, in each of the forms that drivers ask for.
func (s *shop) environ() []string {
	address := s.url(s.app)
	user := url.Values{"user": {strings.Trim(s.app, `"`)}, "password": {password}}
	jdbc := "jdbc:postgresql://" + address.Host + address.Path + "?" + user.Encode()
	return []string{"DATABASE_URL=" + address.String(), "JDBC_DATABASE_URL=" + jdbc}
}

// app is a running shop.
type app struct {
	*process
	url string
}

// startApp runs a command that serves on 127.0.0.1:$PORT and waits until it does.
func (s *shop) startApp(t *testing.T, command func(port string) *exec.Cmd) app {
	t.Helper()
	for range 3 { // another process may be quicker to take the port
		port := freePort(t)
		p := start(t, command(port), append(s.environ(), "PORT="+port)...)
		address := net.JoinHostPort("127.0.0.1", port)
		require.Eventually(t, func() bool { return p.ended() || answers(address) }, 2*soon, tick,
			"%s doesn't serve on %s", p.cmd.Args, address)
		if !p.ended() {
			return app{p, "http://" + address}
		}
		if !strings.Contains(strings.ToLower(p.log.String()), "already in use") {
			require.Failf(t, "the app ended at once", "%s: %s\n%s", p.cmd.Args, p.cmd.ProcessState, p.log)
		}
	}
	require.Fail(t, "no port is free")
	return app{}
}

// freePort is one below the range from which the system takes ports for outgoing connections.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		if listener, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, listener.Close())
			return strings.TrimPrefix(address, "127.0.0.1:")
		}
	}
	require.Fail(t, "no port is free between 20000 and 30000")
	return ""
}

func answers(address string) bool {
	connection, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	return connection.Close() == nil
}

// startSidecar runs a sidecar beside an app, with the timing that ships.
func (s *shop) startSidecar(t *testing.T, appURL string) *process {
	t.Helper()
	cmd := exec.Command(binary(t, "sched-sidecar"), "run")
	cmd.Dir = t.TempDir() // no stray configuration file
	return start(t, cmd, "SCHED_DATABASE_URL="+s.url(s.side).String(), "SCHED_APP_URL="+appURL, "SCHED_ADMIN_ADDR=127.0.0.1:0")
}

// client keeps no connections: an app may be gone before they are.
var client = &http.Client{Timeout: soon, Transport: &http.Transport{DisableKeepAlives: true}}

// post sends JSON and returns what the app answers.
func post(t *testing.T, address string, body any, header http.Header) (status int, answer string) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(string(text)))
	require.NoError(t, err)
	if header != nil {
		request.Header = header.Clone()
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(reply)
}

// task is a row of sched.task, as far as these tests look.
type task struct {
	ID     int64
	Kind   string
	Status string
	Output *string
	Error  *string
	Lease  *string // of its latest attempt
	By     *string // who enqueued it
}

const taskSQL = `
select id, kind, status::text, output::text, error, worker_id || '.' || (extract(epoch from start_time) * 1000000)::bigint, enqueued_by
from sched.task`

func (s *shop) task(t *testing.T, where string, args ...any) task {
	t.Helper()
	rows, err := s.db.Query(t.Context(), taskSQL+" where "+where, args...)
	require.NoError(t, err)
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[task])
	require.NoError(t, err)
	return row
}

// awaitStatus waits until a task has a status.
func (s *shop) awaitStatus(t *testing.T, id int64, status string) task {
	t.Helper()
	deadline := time.Now().Add(soon)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		row := s.task(t, "id = $1", id)
		if row.Status == status {
			return row
		}
		why := "none"
		if row.Error != nil {
			why = *row.Error
		}
		require.Truef(t, time.Now().Before(deadline), "task %d is %s, not %s; its error: %s", id, row.Status, status, why)
		<-ticker.C
	}
}
