package fleettest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// Sidecar is a running sched-sidecar.
type Sidecar struct {
	Log *Log

	cmd    *exec.Cmd
	exited chan struct{}
	admin  string // http://host:port
}

// Start runs a sidecar and waits until it is ready.
func Start(t *testing.T, program, dsn, appURL string, set Settings) *Sidecar {
	t.Helper()
	s := Launch(t, program, dsn, appURL, set)
	s.AwaitReadyz(t, http.StatusOK, Soon)
	return s
}

// Launch runs a sidecar and waits for nothing but its admin listener.
func Launch(t *testing.T, program, dsn, appURL string, set Settings) *Sidecar {
	t.Helper()
	s := Exec(t, program, Settings{SetDatabase: dsn, SetApp: appURL, SetAdmin: "127.0.0.1:0", SetLogFormat: "json"}.Plus(set), "run")
	Eventually(t, Soon, func() bool {
		s.admin = s.Log.adminAddress()
		return s.admin != "" || s.HasExited()
	}, func() string { return "no admin address in the log" })
	require.Falsef(t, s.HasExited(), "the sidecar ended at once (%s):\n%s", s.cmd.ProcessState, s.Log)
	return s
}

// Exec starts a program with nothing in its environment but env, and sees to its
// end: SIGTERM, and a second one when its handlers keep it waiting.
func Exec(t *testing.T, program string, env Settings, args ...string) *Sidecar {
	t.Helper()
	s := &Sidecar{Log: &Log{}, exited: make(chan struct{})}
	s.cmd = exec.Command(program, args...) //nolint:noctx // its end is seen to below, in order
	dieWithParent(s.cmd)
	s.cmd.Dir = t.TempDir() // no stray configuration file
	s.cmd.Env = []string{"HOME=" + s.cmd.Dir, "PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=0"}
	for name, value := range env {
		s.cmd.Env = append(s.cmd.Env, name+"="+value)
	}
	s.cmd.Stdout, s.cmd.Stderr = s.Log, s.Log
	require.NoError(t, s.cmd.Start())
	go func() {
		_ = s.cmd.Wait() // its state is read where it matters
		close(s.exited)
	}()
	t.Cleanup(func() { s.cleanup(t) })
	return s
}

func (s *Sidecar) cleanup(t *testing.T) {
	t.Helper()
	const calm, hurried, dump = 5 * time.Second, time.Minute, 10 * time.Second
	if !s.HasExited() {
		s.Signal(syscall.SIGCONT)
		s.Signal(syscall.SIGTERM)
		if !s.exitsWithin(calm) {
			s.Signal(syscall.SIGTERM)
		}
		if !s.exitsWithin(hurried) {
			s.Signal(syscall.SIGQUIT) // for its goroutines
			if !s.exitsWithin(dump) {
				s.Kill()
			}
			t.Error("the sidecar doesn't end after two SIGTERM")
		}
	}
	log := s.Log.String()
	for _, sign := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(log, sign) {
			t.Errorf("%q in the log of the sidecar", sign)
		}
	}
	if t.Failed() {
		const lines = 40
		t.Logf("log of sidecar %d:\n%s", s.PID(), s.Log.Tail(lines))
	}
}

// PID is its process id.
func (s *Sidecar) PID() int { return s.cmd.Process.Pid }

// AdminAddr is its admin listener's address, host:port.
func (s *Sidecar) AdminAddr() string { return strings.TrimPrefix(s.admin, "http://") }

// Signal sends a signal, if the process is still there.
func (s *Sidecar) Signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// Kill ends the sidecar as a crash would, and waits until it is gone.
func (s *Sidecar) Kill() {
	_ = s.cmd.Process.Kill() // it may be gone
	<-s.exited
}

// HasExited tells whether the process has ended.
func (s *Sidecar) HasExited() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

func (s *Sidecar) exitsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.exited:
		return true
	case <-timer.C:
		return false
	}
}

// AwaitExit returns the exit status.
func (s *Sidecar) AwaitExit(t *testing.T, within time.Duration) int {
	t.Helper()
	require.Truef(t, s.exitsWithin(within), "the sidecar didn't exit within %s", within)
	return s.cmd.ProcessState.ExitCode()
}

// Get asks the admin listener. Status 0: there is none.
func (s *Sidecar) Get(t *testing.T, path string) (int, string) {
	t.Helper()
	const limit = 10 * time.Second
	// No connection outlives its sidecar.
	client := &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.admin+path, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(reply)
}

// AwaitReadyz waits until /readyz answers with a status.
func (s *Sidecar) AwaitReadyz(t *testing.T, status int, within time.Duration) {
	t.Helper()
	var got int
	var body string
	Eventually(t, within, func() bool {
		got, body = s.Get(t, "/readyz")
		return got == status
	}, func() string { return fmt.Sprintf("/readyz is %d %q, not %d", got, body, status) })
}

// Workers returns the ids of this process's registrations, oldest first.
func (s *Sidecar) Workers(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	var ids []string
	require.NoError(t, db.QueryRow(t.Context(), `SELECT coalesce(array_agg(id ORDER BY started_at), '{}') FROM sched.worker WHERE pid = $1`,
		s.PID()).Scan(&ids))
	return ids
}

// Worker returns the id of this process's latest registration.
func (s *Sidecar) Worker(t *testing.T, db *pgxpool.Pool) string {
	t.Helper()
	ids := s.Workers(t, db)
	require.NotEmpty(t, ids, "the sidecar has no registration")
	return ids[len(ids)-1]
}

// Metric sums a metric's samples whose labels contain all the given ones
// (`name="value"`). A metric without samples is 0.
func (s *Sidecar) Metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	status, body := s.Get(t, "/metrics")
	require.Equal(t, http.StatusOK, status)
	total := 0.0
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		series := line[:max(0, strings.LastIndexByte(line, ' '))]
		if (series != name && !strings.HasPrefix(series, name+"{")) || !containsAll(series, labels) {
			continue
		}
		sample, err := strconv.ParseFloat(line[len(series)+1:], 64)
		require.NoErrorf(t, err, "metric %s", line)
		total += sample
	}
	return total
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// URL is where its admin listener is.
func (s *Sidecar) URL() string { return s.admin }
