package mainjob_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// The app as a process of its own, for kill -9: the test binary, started once
// more with these in its environment.
const (
	appProcessEnv    = "MAINJOB_APP_ADDRESS"
	appProcessDSNEnv = "MAINJOB_APP_DATABASE"
)

type appProcess struct {
	cmd     *exec.Cmd
	address string
}

func startAppProcess(t *testing.T, dsn, address string) *appProcess {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &appProcess{cmd: exec.Command(self)}
	dieWithParent(p.cmd)
	p.cmd.Env = append(os.Environ(), appProcessEnv+"="+address, appProcessDSNEnv+"="+dsn)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)

	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the app process says nothing")
	p.address = strings.TrimSpace(line)
	return p
}

func (p *appProcess) kill() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// runAppProcess serves effectOnce until it is killed.
func runAppProcess() int {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, os.Getenv(appProcessDSNEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, "app process:", err)
		return 1
	}
	listener, err := net.Listen("tcp", os.Getenv(appProcessEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, "app process:", err)
		return 1
	}
	fmt.Fprintln(os.Stdout, listener.Addr())
	err = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		c := readCall(r, nil)
		work(c, 20*time.Millisecond)
		reply := effectOnce(r.Context(), db, c.id, c.lease)
		w.WriteHeader(reply.status)
		_, _ = w.Write([]byte(reply.body))
	}))
	fmt.Fprintln(os.Stderr, "app process:", err)
	return 1
}
