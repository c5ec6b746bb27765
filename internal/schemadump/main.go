package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/migrations"
)

func main() {
	out := flag.String("o", "sql/schema.sql", "file to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemadump:", err)
		os.Exit(1) //nolint:forbidigo // main exits
	}
}

func run(ctx context.Context, out string) (err error) {
	server, err := devpg.Start(ctx, devpg.Options{Fast: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := migrations.Up(ctx, server.DSN(), migrations.Options{NoRoles: true}); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	text, err := dump(ctx, conn)
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(text), 0o644)
}
