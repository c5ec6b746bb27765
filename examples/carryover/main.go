package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// shutdownGrace is how long running requests get to finish on SIGTERM.
const shutdownGrace = 5 * time.Second

// connections is how many the pool may open at least. A task holds one for as
// long as it runs, so they must be more than the sidecar's slots, or people
// who close a month wait for tasks to end.
const connections = 16

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` to serve HTTP on")
	pace := flag.Duration("pace", 0, "spread the work of a task over this `time`, so that there is something to watch")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen, *pace, os.Getenv("DATABASE_URL"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "carryover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string, pace time.Duration, databaseURL string) error {
	if databaseURL == "" {
		return errors.New("DATABASE_URL is not set: give the database of the orders, such as postgres://localhost/shop")
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	config.MaxConns = max(config.MaxConns, connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer pool.Close()

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("pid", os.Getpid())
	server := &http.Server{
		Handler:           (&shop{pool: pool, pace: pace, pid: os.Getpid(), log: log}).routes(),
		ReadHeaderTimeout: 5 * time.Second,
	}
	log.Info("open for business", "listen", listener.Addr().String())

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // ends the requests that are left; their transactions roll back
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
