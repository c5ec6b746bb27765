package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sched-sidecar/sched/worker"
)

// Names of the worker processes, the first argument of [RunWorker].
const (
	WorkerApp     = "app"
	WorkerSession = "session"
	WorkerRiver   = "river"
	WorkerFleet   = "fleet"
)

// envDSN hands a worker process its database, which an argument would show to
// everybody on the machine.
const envDSN = "BENCH_DSN"

// RunWorker is the whole of a worker process: an app that a sidecar calls or that
// opens a session to it, a River client with its workers, or many idle sidecars. It
// ends with ctx or with its standard input, and prints one line that says where it
// listens.
func RunWorker(ctx context.Context, name string, args []string, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // blocks until the bench process is gone
		cancel()
	}()

	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	starts := flags.Bool("starts", false, "keep the time of each start")
	work := flags.Duration("work", 0, "how long a task of kind "+workKind+" waits")
	width := flags.Int("width", 0, "how many of those wait at once; 0: any number")
	spin := flags.Int("spin", 0, "rounds that a task of kind "+workKind+" computes")
	sidecars := flags.Int("n", 1, "idle sidecars")
	socket := flags.String("socket", "", "a Unix socket that takes tasks, too")
	target := flags.String("target", "", "where the sidecar takes sessions")
	window := flags.Int("window", 0, "tasks at once in a session")
	if err := flags.Parse(args); err != nil {
		return err
	}
	recorder := newRecorder(*starts)
	switch name {
	case WorkerApp:
		model := newAppModel(*work, *width, *spin)
		return serve(ctx, stdout, recorder, *socket, func(mux *http.ServeMux) {
			mux.HandleFunc("POST /tasks/{kind}", taskHandler(recorder, model))
			model.routes(mux)
		})
	case WorkerSession:
		parts, ctx := errgroup.WithContext(ctx)
		parts.Go(func() error { return serve(ctx, stdout, recorder, "", noRoutes) })
		parts.Go(func() error { return runSession(ctx, *target, *window, recorder) })
		return parts.Wait()
	case WorkerRiver:
		client, err := startRiver(ctx, os.Getenv(envDSN), recorder)
		if err != nil {
			return err
		}
		return errors.Join(serve(ctx, stdout, recorder, "", noRoutes), client.stop())
	case WorkerFleet:
		return serveFleet(ctx, os.Getenv(envDSN), *sidecars, func() error { return serve(ctx, stdout, recorder, "", noRoutes) })
	default:
		return fmt.Errorf("no worker process is called %q", name)
	}
}

// workKind is the kind of task that takes something; all others take nothing.
const workKind = "bench.work"

// taskHandler is an app that does nothing with its tasks but what its model has
// for those of one kind.
func taskHandler(recorder *recorder, model *appModel) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.Header.Get("Ce-Id"), 10, 64)
		if err != nil {
			http.Error(w, "Ce-Id is no task id", http.StatusBadRequest)
			return
		}
		recorder.record(id)
		_, _ = io.Copy(io.Discard, r.Body) // what fails here fails the call itself
		if r.PathValue("kind") == workKind {
			if model.turnsDown(w) {
				return
			}
			if model.take(r.Context()) != nil {
				return // the sidecar has hung up
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// runSession is an app that does nothing with the tasks of its session.
func runSession(ctx context.Context, target string, window int, recorder *recorder) error {
	return worker.Run(ctx, worker.Options{Target: target, Window: window, Handlers: map[string]worker.Handler{
		noopKind: func(_ context.Context, task *worker.Task) (any, error) {
			recorder.record(task.ID)
			return nil, nil
		},
		retriedKind: retriedHandler(recorder),
	}})
}

// serve listens on a free port of the loopback, and on a Unix socket if there is to be
// one, until ctx ends.
func serve(ctx context.Context, stdout io.Writer, recorder *recorder, socket string, route func(*http.ServeMux)) error {
	var lc net.ListenConfig
	port, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	listeners := []net.Listener{port}
	if socket != "" {
		listener, err := lc.Listen(ctx, "unix", socket)
		if err != nil {
			return errors.Join(fmt.Errorf("listening: %w", err), port.Close())
		}
		listeners = append(listeners, listener)
	}
	mux := http.NewServeMux()
	recorder.routes(mux)
	route(mux)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	var serving errgroup.Group
	for _, listener := range listeners {
		serving.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return errors.Join(fmt.Errorf("serving: %w", err), server.Close())
			}
			return nil
		})
	}
	if err := json.NewEncoder(stdout).Encode(map[string]string{"addr": port.Addr().String()}); err != nil {
		return errors.Join(fmt.Errorf("saying where it listens: %w", err), server.Close(), serving.Wait())
	}
	return serving.Wait()
}
