package devpg

import (
	"context"
	"log/slog"
)

// aptInstall installs the distribution's server. It changes the machine, so it's announced and comes last.
func aptInstall(ctx context.Context, version string, log *slog.Logger, install func(context.Context, ...string) error) error {
	pkg := "postgresql"
	if version != "" {
		pkg += "-" + version
	}
	log.Warn("no Postgres server on this machine: installing it with apt-get; its package may also start a server of its own on port 5432",
		"package", pkg)
	return install(ctx, pkg)
}
