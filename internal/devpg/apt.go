package devpg

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
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
func aptInstall(ctx context.Context, version string, log *slog.Logger, run func(context.Context, []string) error) error {
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
		if err := run(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(step, " "), err)
		}
	}
	return nil
}

func runApt(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(string(out), 5))
	}
	return nil
}
