package recipes_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// recipe is a shop in one language.
type recipe struct {
	name string // its directory
	base string // path before those of its kinds
	// prepare returns the command that runs it, or what is missing on this machine.
	prepare func(t *testing.T) (command func(port string) *exec.Cmd, missing string)
	debian  []string // packages that bring what may be missing
}

func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			command, missing := r.prepare(t)
			if missing != "" {
				t.Skip(missing)
			}
			runRecipe(t, command, r.base)
		})
	}
}

// runRecipe holds a shop to what every recipe promises.
func runRecipe(t *testing.T, command func(port string) *exec.Cmd, base string) {
	t.Helper()
	s := newShop(t)
	a := s.startApp(t, command)
	a.url += base

	// An order and its task.
	const customer = `Zoë "O'Hara"; $1 :'x' \ %s ?`
	status, answer := post(t, a.url+"/orders", map[string]any{"customer": customer, "cents": 9950}, nil)
	require.Equal(t, http.StatusCreated, status, answer)
	var created struct{ Order int64 }
	require.NoError(t, json.Unmarshal([]byte(answer), &created), answer)
	var stored string
	require.NoError(t, s.db.QueryRow(t.Context(), "select customer from orders where id = $1", created.Order).Scan(&stored))
	require.Equal(t, customer, stored)
	ordered := s.task(t, "args = jsonb_build_object('order', $1::bigint)", created.Order)
	require.Equal(t, "invoice", ordered.Kind)

	// A transaction that fails at its commit leaves neither.
	s.refuseAtCommit(t, "Nobody")
	status, answer = post(t, a.url+"/orders", map[string]any{"customer": "Nobody", "cents": 1}, nil)
	require.Equal(t, http.StatusInternalServerError, status, answer)
	require.Equal(t, 1, s.count(t, "orders"))
	require.Equal(t, 1, s.count(t, "sched.task"))

	// A kind that this app doesn't have.
	status, answer = post(t, a.url+"/other", map[string]any{}, nil)
	require.Equal(t, http.StatusNotFound, status, answer)

	// The sidecar brings the task; the app writes the invoice and completes it.
	sidecar := s.startSidecar(t, a.url)
	done := s.awaitStatus(t, ordered.ID, "completed")
	var number, cents int64
	require.NoError(t, s.db.QueryRow(t.Context(), "select number, cents from invoices where order_id = $1", created.Order).Scan(&number, &cents))
	require.EqualValues(t, 9950, cents)
	require.NotNil(t, done.Output)
	require.JSONEq(t, fmt.Sprintf(`{"invoice": %d}`, number), *done.Output)

	// The same attempt once more, as after an answer that was lost: refused, and without effect.
	header := http.Header{"Sched-Task-Id": {strconv.FormatInt(done.ID, 10)}, "Sched-Lease": {*done.Lease}}
	status, answer = post(t, a.url+"/invoice", map[string]any{"order": created.Order}, header)
	require.Equal(t, http.StatusConflict, status, answer)
	require.Equal(t, 1, s.count(t, "invoices"))

	// A task about something that isn't there is cancelled, not tried again.
	var id int64
	require.NoError(t, s.db.QueryRow(t.Context(), `select sched.enqueue('invoice', '{"order": 4711}')`).Scan(&id))
	gone := s.awaitStatus(t, id, "cancelled")
	require.NotNil(t, gone.Error)
	require.Contains(t, *gone.Error, "order")
	require.Equal(t, 1, s.count(t, "invoices"))
	sidecar.stop(t)
}

// refuseAtCommit makes the commit fail that brings an order of this customer.
func (s *shop) refuseAtCommit(t *testing.T, customer string) {
	t.Helper()
	s.exec(t, `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused at commit'; end $$`)
	s.exec(t, `create constraint trigger refuse after insert on orders deferrable initially deferred
		for each row when (new.customer = '`+customer+`') execute function refuse()`)
}
