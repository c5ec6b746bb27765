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
)

// Names of the worker processes, the first argument of [RunWorker].
const (
	WorkerApp   = "app"
	WorkerRiver = "river"
)

// envDSN hands a worker process its database, which an argument would show to
// everybody on the machine.
const envDSN = "BENCH_DSN"

// RunWorker is the whole of a worker process: an app that a sidecar calls, or a
// River client with its workers. It ends with ctx or with its standard input,
// and prints one line that says where it listens.
func RunWorker(ctx context.Context, name string, args []string, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // blocks until the bench process is gone
		cancel()
	}()

	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	starts := flags.Bool("starts", false, "keep the time of each start")
	if err := flags.Parse(args); err != nil {
		return err
	}
	recorder := newRecorder(*starts)
	switch name {
	case WorkerApp:
		return serve(ctx, stdout, recorder, func(mux *http.ServeMux) { mux.HandleFunc("POST /tasks/{kind}", taskHandler(recorder)) })
	case WorkerRiver:
		client, err := startRiver(ctx, os.Getenv(envDSN), recorder)
		if err != nil {
			return err
		}
		return errors.Join(serve(ctx, stdout, recorder, func(*http.ServeMux) {}), client.stop())
	default:
		return fmt.Errorf("no worker process is called %q", name)
	}
}

// taskHandler is an app that does nothing with its tasks.
func taskHandler(recorder *recorder) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.Header.Get("Ce-Id"), 10, 64)
		if err != nil {
			http.Error(w, "Ce-Id is no task id", http.StatusBadRequest)
			return
		}
		recorder.record(id)
		_, _ = io.Copy(io.Discard, r.Body) // what fails here fails the call itself
		w.WriteHeader(http.StatusNoContent)
	}
}

// serve listens on a free port of the loopback until ctx ends.
func serve(ctx context.Context, stdout io.Writer, recorder *recorder, route func(*http.ServeMux)) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	mux := http.NewServeMux()
	recorder.routes(mux)
	route(mux)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := json.NewEncoder(stdout).Encode(map[string]string{"addr": listener.Addr().String()}); err != nil {
		return errors.Join(fmt.Errorf("saying where it listens: %w", err), listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
