package devpg

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
)

func canAptInstall() bool {
	if os.Geteuid() != 0 {
		return false
	}
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		return false
	}
	_, err := exec.LookPath("apt-get")
	return err == nil
}

// aptInstall installs the distribution's server. It changes the machine, so it's announced and comes last.
func aptInstall(ctx context.Context, version string, log *slog.Logger) error {
	pkg := "postgresql"
	if version != "" {
		pkg += "-" + version
	}
	steps := [][]string{
		{"apt-get", "update"},
		{"apt-get", "install", "-y", "--no-install-recommends", pkg},
	}
	log.Warn("no Postgres server on this machine: installing it with apt-get; its package may also start a server of its own on port 5432",
		"commands", steps)
	for _, step := range steps {
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", step, err, lastLines(string(out), 5))
		}
	}
	return nil
}
