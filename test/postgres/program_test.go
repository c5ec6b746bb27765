package postgres_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// settings are a program's environment (docs/config.md).
type settings map[string]string

// plus returns the settings with others on top.
func (s settings) plus(others settings) settings {
	all := maps.Clone(s)
	maps.Copy(all, others)
	return all
}

const (
	setDatabase = "SCHED_DATABASE_URL"
	setListen   = "SCHED_DATABASE_LISTEN_URL"
	setPool     = "SCHED_DATABASE_POOL_MAX"
	setQueues   = "SCHED_QUEUES"
	setSlots    = "SCHED_SLOTS_CEILING"

	// evictAfter is the shortened time to an eviction (see quick).
	evictAfter = 4 * time.Second
	// leaderless is how long a fleet may take to elect a leader.
	leaderless = 40 * time.Second
	// soon is ample time for what should happen at once.
	soon = time.Minute
)

// quick shortens what an eviction takes. Polls keep the timing that ships: what
// heals has to heal with that.
func quick() settings {
	return settings{
		"SCHED_HEARTBEAT_INTERVAL": "500ms",
		"SCHED_FENCE_AFTER":        "3s",
		"SCHED_EVICT_AFTER":        evictAfter.String(),
	}
}

// program is a running process of a built binary.
type program struct {
	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{}
	admin  string // of a sidecar: http://host:port
}

// start runs a binary of ours.
func start(t *testing.T, binary string, env settings, args ...string) *program {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = t.TempDir() // no stray configuration file
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return launch(t, cmd)
}

// launch starts a command, and sees to its end.
func launch(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{cmd: cmd, log: &logBuffer{}, exited: make(chan struct{})}
	dieWithParent(cmd)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() { p.cleanup(t) })
	return p
}

// startSidecar runs a sidecar and waits until it is ready.
func startSidecar(t *testing.T, dsn, appURL string, set settings) *program {
	t.Helper()
	env := settings{
		setDatabase: dsn, "SCHED_APP_URL": appURL, "SCHED_ADMIN_ADDR": "127.0.0.1:0", "SCHED_LOG_FORMAT": "json",
		"SCHED_SHUTDOWN_GRACE": "3s",
	}
	s := start(t, sidecarBinary, env.plus(set), "run")
	eventually(t, soon, func() bool {
		s.admin = s.log.adminAddress()
		return s.admin != "" || s.hasExited()
	}, func() string { return "no admin address in the log" })
	require.Falsef(t, s.hasExited(), "the sidecar ended at once:\n%s", s.log)
	eventually(t, soon, func() bool {
		status, _ := s.get(t, "/readyz")
		return status == http.StatusOK
	}, func() string { _, body := s.get(t, "/readyz"); return "not ready: " + body })
	return s
}

// sched runs the command line to its end and returns its exit status and output.
func sched(t *testing.T, args ...string) (int, string) {
	t.Helper()
	p := start(t, schedBinary, nil, args...)
	return p.awaitExit(t, time.Minute), p.log.String()
}

// migrateUp migrates with the command line.
func migrateUp(t *testing.T, dsn string, flags ...string) {
	t.Helper()
	status, out := sched(t, append([]string{"migrate", "up", "--dsn", dsn}, flags...)...)
	require.Zero(t, status, out)
}

func (p *program) cleanup(t *testing.T) {
	if !p.hasExited() {
		p.signal(syscall.SIGTERM)
		if !p.exitsWithin(soon) {
			p.signal(syscall.SIGQUIT) // for its goroutines
			if !p.exitsWithin(10 * time.Second) {
				p.kill()
			}
			t.Error("the program doesn't end after SIGTERM")
		}
	}
	log := p.log.String()
	for _, sign := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(log, sign) {
			t.Errorf("%q in the log", sign)
		}
	}
	if t.Failed() {
		t.Logf("log of process %d:\n%s", p.cmd.Process.Pid, p.log.tail(60))
	}
}

func (p *program) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// stop ends a sidecar as an operator would.
func (p *program) stop(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.awaitExit(t, soon), p.log.String())
}

// kill ends the process as a crash would, and waits until it is gone.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *program) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *program) exitsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// awaitExit returns the exit status.
func (p *program) awaitExit(t *testing.T, within time.Duration) int {
	t.Helper()
	require.Truef(t, p.exitsWithin(within), "no end within %s:\n%s", within, p.log)
	return p.cmd.ProcessState.ExitCode()
}

// adminClient keeps no connections, so that none outlives its sidecar.
var adminClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get asks the admin listener; status 0 when that is gone.
func (p *program) get(t *testing.T, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+path, nil)
	require.NoError(t, err)
	response, err := adminClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(body)
}

// metric reads a metric without labels.
func (p *program) metric(t *testing.T, name string) float64 {
	t.Helper()
	status, body := p.get(t, "/metrics")
	require.Equal(t, http.StatusOK, status)
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return number
		}
	}
	require.FailNow(t, "no such metric", name)
	return 0
}

func (p *program) awaitMetric(t *testing.T, name string, value float64, within time.Duration) {
	t.Helper()
	var got float64
	eventually(t, within, func() bool {
		got = p.metric(t, name)
		return got == value
	}, func() string { return name + " is " + strconv.FormatFloat(got, 'g', -1, 64) })
}

// logBuffer keeps what a process prints.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) tail(lines int) string {
	all := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// adminAddress finds the line that names the admin listener's address.
func (b *logBuffer) adminAddress() string {
	for line := range strings.Lines(b.String()) {
		var entry struct{ Msg, Addr string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Addr != "" && (strings.Contains(entry.Msg, "ready") || strings.Contains(entry.Msg, "admin")) {
			return "http://" + entry.Addr
		}
	}
	return ""
}
