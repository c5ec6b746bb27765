package supervise

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

//go:embed guard.sh
var guardScript string

const shell = "/bin/sh"

// orphanGrace is how long a command whose owner died gets from SIGTERM to SIGKILL.
const orphanGrace = 5 * time.Second

// guard is the process that leads a command's group and outlives us to end it.
type guard struct {
	cmd  *exec.Cmd
	hold *os.File // the pipe's write end: the guard ends the group when it closes
}

// startGuard returns nil without an error where there is no shell.
func startGuard(shell string) (*guard, error) {
	if _, err := os.Stat(shell); err != nil {
		return nil, nil // no guard then
	}
	held, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }() // the guard has its own copy
	// No context: its life is that of the group.
	cmd := exec.CommandContext(context.Background(), shell, "-c", guardScript, "sched-guard", strconv.Itoa(int(orphanGrace.Seconds())))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // it needs sleep, and none of our secrets
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = hold.Close()
		return nil, fmt.Errorf("starting %s to guard the command: %w", shell, err)
	}
	return &guard{cmd: cmd, hold: hold}, nil
}

func (g *guard) pid() int { return g.cmd.Process.Pid }

// watch tells the guard whose end to wait for when it has to end the group.
func (g *guard) watch(pid int) {
	_, _ = fmt.Fprintln(g.hold, pid) // only fails when the guard is gone, and then there's nothing to tell it
}

// release ends the guard. Its group must not be signalled after that.
func (g *guard) release() {
	_ = g.cmd.Process.Kill() // with the group already, mostly
	_ = g.cmd.Wait()         // killed, as it should be
	_ = g.hold.Close()
}
