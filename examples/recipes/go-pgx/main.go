// Go-pgx is the shop of the recipes on net/http and pgx.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/jobs"
)

// Invoice asks for an order's invoice. As JSON it is the body of the request.
type Invoice struct {
	Order int64 `json:"order"`
}

// Kind is the name of the task, and the path of the request.
func (Invoice) Kind() string { return "invoice" }

type shop struct{ pool *pgxpool.Pool }

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "DATABASE_URL:", err)
		os.Exit(1)
	}
	s := &shop{pool: pool}
	http.HandleFunc("POST /orders", s.takeOrder)
	http.HandleFunc("POST /invoice", s.writeInvoice)
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
	os.Exit(1)
}

// takeOrder is for people: the order and its task, both or neither.
func (s *shop) takeOrder(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Customer string
		Cents    int
	}
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var id int64
	err := pgx.BeginFunc(r.Context(), s.pool, func(tx pgx.Tx) error {
		const insert = "insert into orders (customer, cents) values ($1, $2) returning id"
		if err := tx.QueryRow(r.Context(), insert, order.Customer, order.Cents).Scan(&id); err != nil {
			return err
		}
		_, err := jobs.EnqueueTx(r.Context(), tx, Invoice{Order: id})
		return err
	})
	answer(w, http.StatusCreated, map[string]int64{"order": id}, err)
}

var errNoOrder = errors.New("no such order")

// writeInvoice is for the sidecar: the invoice and the end of the task, both or neither.
func (s *shop) writeInvoice(w http.ResponseWriter, r *http.Request) {
	var task Invoice
	if err := json.NewDecoder(r.Body).Decode(&task); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := strconv.ParseInt(r.Header.Get("Sched-Task-Id"), 10, 64)
	if err != nil {
		http.Error(w, "Sched-Task-Id: "+err.Error(), http.StatusBadRequest)
		return
	}
	output := map[string]int64{}
	err = pgx.BeginFunc(r.Context(), s.pool, func(tx pgx.Tx) error {
		const insert = "insert into invoices (order_id, cents) select id, cents from orders where id = $1 returning number"
		var number int64
		err := tx.QueryRow(r.Context(), insert, task.Order).Scan(&number)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoOrder
		}
		if err != nil {
			return err
		}
		output["invoice"] = number
		return jobs.Complete(r.Context(), tx, id, r.Header.Get("Sched-Lease"), output)
	})
	answer(w, http.StatusOK, output, err)
}

// answer tells the sidecar how it went. It comes behind the commit: a 2xx says that the work is done and kept.
func answer(w http.ResponseWriter, status int, body any, err error) {
	switch {
	case errors.Is(err, errNoOrder):
		http.Error(w, err.Error(), http.StatusGone) // trying again is pointless
	case errors.Is(err, jobs.ErrLeaseLost):
		http.Error(w, err.Error(), http.StatusConflict) // another attempt has it; ours left nothing behind
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError) // try again
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // who doesn't hear it asks again
	}
}
