package recipes_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// psql runs a script of the recipe.
func (s *shop) psql(script, role string, variables ...string) (string, error) {
	cmd := exec.Command("psql", s.url(role).String(), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", filepath.Join("psql", script))
	cmd.Env = append(cleanEnviron(), variables...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPsql(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is missing")
	}
	s := newShop(t)
	auditor := s.role(t, "auditor")
	s.exec(t, "grant sched_auditor to "+auditor)
	// The app starts psql for each task, as a CGI script would.
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args struct{ Order int64 }
		_ = json.NewDecoder(r.Body).Decode(&args)
		out, err := s.psql("invoice.sql", s.app, "TASK="+r.Header.Get("Sched-Task-Id"), "LEASE="+r.Header.Get("Sched-Lease"),
			"ORDER="+strconv.FormatInt(args.Order, 10))
		if err != nil {
			http.Error(w, out, http.StatusInternalServerError)
		}
	}))
	t.Cleanup(app.Close)

	const customer = `Zoë "O'Hara"; $1 :'x' \`
	out, err := s.psql("order.sql", s.app, "CUSTOMER="+customer, "CENTS=9950")
	require.NoError(t, err, out)
	require.Equal(t, "order 1 taken, task 1 will write its invoice\n", out)
	require.Equal(t, 1, s.count(t, "orders where customer = '"+strings.ReplaceAll(customer, "'", "''")+"'"))

	s.refuseAtCommit(t, "Nobody")
	out, err = s.psql("order.sql", s.app, "CUSTOMER=Nobody", "CENTS=1")
	require.ErrorContains(t, err, "exit status 3", out)
	require.Equal(t, 1, s.count(t, "orders"))
	require.Equal(t, 1, s.count(t, "sched.task"))

	sidecar := s.startSidecar(t, app.URL)
	done := s.awaitStatus(t, 1, "completed")
	require.JSONEq(t, `{"invoice": 1}`, *done.Output)

	out, err = s.psql("invoice.sql", s.app, "TASK=1", "LEASE="+*done.Lease, "ORDER=1")
	require.ErrorContains(t, err, "exit status 3", out)
	require.Contains(t, out, "completed already")
	require.Equal(t, 1, s.count(t, "invoices"))

	s.exec(t, "insert into orders (customer, cents) select 'Bo', n from generate_series(1, 3) as n")
	out, err = s.psql("again.sql", s.app, "BATCH=it's May")
	require.NoError(t, err, out)
	require.Equal(t, "3 tasks in batch it's May\n", out)
	require.Eventually(t, func() bool { return s.count(t, "sched.task where status = 'completed'") == 4 }, soon, tick)
	out, err = s.psql("watch.sql", auditor, "BATCH=it's May")
	require.NoError(t, err, out)
	require.Regexp(t, `3 \| +3 \| +0 \| +100`, out)
	require.Equal(t, 4, s.count(t, "invoices"))
	sidecar.stop(t)
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.script(t, filepath.Join("trigger", "trigger.sql"))
	clerk := s.role(t, "clerk") // may insert orders, and knows nothing of sched
	s.exec(t, "grant insert, update, select on orders to "+clerk)
	db := s.connect(t, clerk)
	run := func(sql string) {
		t.Helper()
		_, err := db.Exec(t.Context(), sql).ReadAll()
		require.NoError(t, err)
	}

	run("insert into orders (customer, cents) select 'Ann', n from generate_series(1, 3) as n")
	require.Equal(t, 3, s.count(t, "sched.task as t join orders as o on t.args = jsonb_build_object('order', o.id) where kind = 'invoice'"))
	require.Equal(t, strings.Trim(clerk, `"`), *s.task(t, "id = 1").By)

	run("insert into orders (customer, cents) select 'Ann', 1 where false")
	run("begin; insert into orders (customer, cents) values ('Ann', 1); rollback")
	require.Equal(t, 3, s.count(t, "sched.task"))

	_, err := db.CopyFrom(t.Context(), strings.NewReader("Bo\t1\nBo\t2\n"), "copy orders (customer, cents) from stdin")
	require.NoError(t, err)
	require.Equal(t, 5, s.count(t, "sched.task where kind = 'invoice'"))

	// More rows than one call takes.
	s.exec(t, "update sched.setting set value = '10000' where key = 'max_enqueue_many'")
	run("insert into orders (customer, cents) select 'Cy', n from generate_series(1, 20001) as n")
	require.Equal(t, 20006, s.count(t, "sched.task where kind = 'invoice'"))

	run("update orders set paid_at = now() where id in (1, 2); update orders set paid_at = now() where id = 2; update orders set cents = 7 where id = 3")
	require.Equal(t, 2, s.count(t, "sched.task where kind = 'receipt'"))

	// Nobody else can hang the function, and with it its owner's rights, on a table of their own.
	_, err = db.Exec(t.Context(), "create temporary table mine (id bigint); create trigger t after update on mine for each row execute function enqueue_receipt()").ReadAll()
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "42501", refused.Code)
}

// connect logs a role in.
func (s *shop) connect(t *testing.T, role string) *pgconn.PgConn {
	t.Helper()
	connection, err := pgconn.Connect(t.Context(), s.url(role).String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close(context.Background()) })
	return connection
}
