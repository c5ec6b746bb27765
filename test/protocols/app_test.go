package protocols_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/worker"
)

// The app's environment. What is called SCHED_… doesn't reach a command.
const (
	envProtocol = "PROTOCOLS_APP" // http, grpc or exec; set: this process is the app
	envAddress  = "PROTOCOLS_ADDRESS"
	envDSN      = "PROTOCOLS_DSN"
)

const kind = "case"

// What a task tells the app to do.
const (
	doComplete   = "complete"
	doRetryOnce  = "retry once"  // fail the first attempt
	doCancel     = "cancel"      // for good
	doSnoozeOnce = "snooze once" // the first attempt, for a second
	doHang       = "hang"        // until somebody ends it
	doHangOnce   = "hang once"   // in the first attempt; then in its own transaction
	doDieOnce    = "die once"    // the app, by SIGKILL, in the first attempt; then in its own transaction
	doEffect     = "effect"      // complete in the app's own transaction
	doWork       = "work"        // for eight seconds
)

// attempt is one attempt as the app gets it.
type attempt struct {
	id     int64
	number int
	lease  string
	do     string
}

// Errors that stand for outcomes.
var (
	errCancel = errors.New("hopeless")
	errSnooze = errors.New("busy")
	errRetry  = errors.New("once more")
)

// perform does what a task says; its output is the task's.
func perform(ctx context.Context, db *pgxpool.Pool, a attempt) (json.RawMessage, error) {
	if _, err := db.Exec(ctx, "INSERT INTO public.seen (task_id, attempt, lease) VALUES ($1, $2, $3)", a.id, a.number, a.lease); err != nil {
		return nil, err
	}
	first := a.number == 1
	var seen int
	if err := db.QueryRow(ctx, "SELECT count(*) FROM public.seen WHERE task_id = $1", a.id).Scan(&seen); err != nil {
		return nil, err
	}
	switch {
	case a.do == doRetryOnce && first:
		return nil, errRetry
	case a.do == doCancel:
		return nil, errCancel
	case a.do == doSnoozeOnce && seen == 1:
		return nil, errSnooze
	case a.do == doHang, a.do == doHangOnce && seen == 1:
		<-ctx.Done()
		return nil, ctx.Err()
	case a.do == doDieOnce && seen == 1:
		return nil, errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("still there"))
	case a.do == doEffect, a.do == doHangOnce, a.do == doDieOnce:
		return json.RawMessage("{}"), effect(ctx, db, a)
	case a.do == doWork:
		timer := time.NewTimer(8 * time.Second)
		defer timer.Stop()
		<-timer.C
	}
	return json.RawMessage(fmt.Sprintf(`{"attempt": %d}`, a.number)), nil
}

// effect has it together with the task's completion, or not at all.
func effect(ctx context.Context, db *pgxpool.Pool, a attempt) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing once it is committed
	if _, err := tx.Exec(ctx, "INSERT INTO public.effect (task_id) VALUES ($1)", a.id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT sched.complete($1, $2, '{\"own\": true}')", a.id, a.lease); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// doing reads what args say.
func doing(args []byte) string {
	var what struct{ Do string }
	_ = json.Unmarshal(args, &what) // nothing to do is to complete
	return what.Do
}

// runApp is the whole of an app's process; its result is the exit status.
func runApp(protocol string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := pgxpool.New(ctx, os.Getenv(envDSN))
	if err == nil {
		defer db.Close()
		switch protocol {
		case "exec":
			return runCommand(ctx, db)
		case "grpc":
			err = worker.Run(ctx, worker.Options{Target: os.Getenv(envAddress), Handlers: map[string]worker.Handler{kind: session(db)}})
		default:
			err = serve(ctx, db, os.Getenv(envAddress))
		}
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runCommand is one task over exec.
func runCommand(ctx context.Context, db *pgxpool.Pool) int {
	args, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	id, _ := strconv.ParseInt(os.Getenv("SCHED_TASK_ID"), 10, 64)
	number, _ := strconv.Atoi(os.Getenv("SCHED_ATTEMPT"))
	output, err := perform(ctx, db, attempt{id, number, os.Getenv("SCHED_LEASE"), doing(args)})
	switch {
	case err == nil:
		_, _ = os.Stdout.Write(output)
		return 0
	case errors.Is(err, errCancel):
		fmt.Fprintln(os.Stderr, err)
		return 65
	default:
		fmt.Fprintln(os.Stderr, err)
		return 75
	}
}

// session is the handler over grpc.
func session(db *pgxpool.Pool) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (any, error) {
		output, err := perform(ctx, db, attempt{task.ID, task.Attempt, task.Lease, doing(task.Args)})
		switch {
		case errors.Is(err, errCancel):
			return nil, worker.Cancel(err)
		case errors.Is(err, errSnooze):
			return nil, worker.Snooze(time.Second, err)
		}
		return output, err
	}
}

// serve is the app over http, on a Unix socket.
func serve(ctx context.Context, db *pgxpool.Pool, url string) error {
	socket := strings.TrimPrefix(url, "unix://")
	_ = os.Remove(socket) // of one that was killed
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		args, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			return
		}
		id, _ := strconv.ParseInt(r.Header.Get("Sched-Task-Id"), 10, 64)
		number, _ := strconv.Atoi(r.Header.Get("Sched-Attempt"))
		output, err := perform(r.Context(), db, attempt{id, number, r.Header.Get("Sched-Lease"), doing(args)})
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(output)
		case errors.Is(err, errCancel):
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		case errors.Is(err, errSnooze):
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	return server.Serve(listener)
}
