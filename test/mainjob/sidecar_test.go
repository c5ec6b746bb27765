package mainjob_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// settings are a sidecar's environment.
type settings map[string]string

// The sidecar's settings (docs/config.md).
const (
	setDatabase  = "SCHED_DATABASE_URL"
	setApp       = "SCHED_APP_URL"
	setAdmin     = "SCHED_ADMIN_ADDR"
	setHeartbeat = "SCHED_HEARTBEAT_INTERVAL"
	setFence     = "SCHED_FENCE_AFTER"
	setEvict     = "SCHED_EVICT_AFTER"
	setPoll      = "SCHED_POLL_INTERVAL"
	setSlots     = "SCHED_SLOTS_CEILING"
	setGrace     = "SCHED_SHUTDOWN_GRACE"
	setKinds     = "SCHED_KINDS"
	setQueues    = "SCHED_QUEUES"
	setLabels    = "SCHED_LABELS"
	setPool      = "SCHED_DATABASE_POOL_MAX"
	setLogFormat = "SCHED_LOG_FORMAT"
)

// The shortened timing: the proportions of what ships, an order of magnitude
// faster. An eviction is still several scheduling hiccups of a busy machine away.
const (
	quickHeartbeat = 500 * time.Millisecond
	quickFence     = 6 * time.Second
	quickEvict     = 8 * time.Second
	quickPoll      = 200 * time.Millisecond

	// leaderless is how long a fleet may be without a leader after its leader
	// was killed: River's lease, its election interval and much slack.
	leaderless = time.Minute
	// soon is ample time for what should happen at once.
	soon = time.Minute
)

func quick() settings {
	return settings{
		setHeartbeat: quickHeartbeat.String(),
		setFence:     quickFence.String(),
		setEvict:     quickEvict.String(),
		setPoll:      quickPoll.String(),
	}
}

// plus returns the settings with others on top.
func (s settings) plus(others settings) settings {
	all := maps.Clone(s)
	maps.Copy(all, others)
	return all
}

// sidecar is a running sched-sidecar.
type sidecar struct {
	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{}
	admin  string // http://host:port
}

// startSidecar runs a sidecar and waits until it is ready.
func startSidecar(t *testing.T, dsn, appURL string, set settings) *sidecar {
	t.Helper()
	s := launchSidecar(t, dsn, appURL, set)
	s.awaitReady(t, soon)
	return s
}

// launchSidecar runs a sidecar and waits for nothing but its admin listener.
func launchSidecar(t *testing.T, dsn, appURL string, set settings) *sidecar {
	t.Helper()
	return launchProgram(t, sidecarBinary, dsn, appURL, set)
}

// launchProgram is launchSidecar for the sidecar of another release.
func launchProgram(t *testing.T, binary, dsn, appURL string, set settings) *sidecar {
	t.Helper()
	s := execProgram(t, binary, settings{setDatabase: dsn, setApp: appURL, setAdmin: "127.0.0.1:0", setLogFormat: "json"}.plus(set), "run")
	eventually(t, soon, func() bool {
		s.admin = s.log.adminAddress()
		return s.admin != "" || s.hasExited()
	}, func() string { return "no admin address in the log" })
	require.Falsef(t, s.hasExited(), "the sidecar ended at once (%s):\n%s", s.cmd.ProcessState, s.log)
	return s
}

// execSidecar starts the binary and sees to its end: SIGTERM, a second one when
// its handlers keep it waiting, and exit status 0.
func execSidecar(t *testing.T, env settings, args ...string) *sidecar {
	t.Helper()
	return execProgram(t, sidecarBinary, env, args...)
}

func execProgram(t *testing.T, binary string, env settings, args ...string) *sidecar {
	t.Helper()
	s := &sidecar{log: &logBuffer{}, exited: make(chan struct{})}
	s.cmd = exec.Command(binary, args...)
	dieWithParent(s.cmd)
	s.cmd.Dir = t.TempDir() // no stray configuration file
	s.cmd.Env = []string{"HOME=" + s.cmd.Dir, "PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=0"}
	for name, value := range env {
		s.cmd.Env = append(s.cmd.Env, name+"="+value)
	}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	require.NoError(t, s.cmd.Start())
	go func() {
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() { s.cleanup(t) })
	return s
}

func (s *sidecar) cleanup(t *testing.T) {
	if !s.hasExited() {
		s.signal(syscall.SIGCONT)
		s.signal(syscall.SIGTERM)
		if !s.exitsWithin(5 * time.Second) {
			s.signal(syscall.SIGTERM)
		}
		if !s.exitsWithin(soon) {
			s.signal(syscall.SIGQUIT) // for its goroutines
			if !s.exitsWithin(10 * time.Second) {
				s.kill()
			}
			t.Error("the sidecar doesn't end after two SIGTERM")
		}
	}
	log := s.log.String()
	for _, sign := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(log, sign) {
			t.Errorf("%q in the log of the sidecar", sign)
		}
	}
	if t.Failed() {
		t.Logf("log of sidecar %d:\n%s", s.cmd.Process.Pid, s.log.tail(60))
	}
}

func (s *sidecar) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// suspend stops the sidecar and waits until it stands still: the signal's sender
// goes on before all threads of the receiver have stopped.
func (s *sidecar) suspend(t *testing.T) {
	t.Helper()
	s.signal(syscall.SIGSTOP)
	eventually(t, soon, func() bool { return isSuspended(s.cmd.Process.Pid) }, func() string { return "the sidecar doesn't stop" })
}

// kill ends the sidecar as a crash would, and waits until it is gone.
func (s *sidecar) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

func (s *sidecar) hasExited() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

func (s *sidecar) exitsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.exited:
		return true
	case <-timer.C:
		return false
	}
}

// awaitExit returns the exit status.
func (s *sidecar) awaitExit(t *testing.T, within time.Duration) int {
	t.Helper()
	require.Truef(t, s.exitsWithin(within), "the sidecar didn't exit within %s", within)
	return s.cmd.ProcessState.ExitCode()
}

// get asks the admin listener.
func (s *sidecar) get(t *testing.T, path string) (int, string) {
	t.Helper()
	return s.request(t, http.MethodGet, path, nil, "")
}

// tryGet is get for when the listener may be gone: status 0.
func (s *sidecar) tryGet(t *testing.T, path string) (int, string) {
	t.Helper()
	status, body, _ := s.send(t, http.MethodGet, path, nil, "")
	return status, body
}

func (s *sidecar) request(t *testing.T, method, path string, header map[string]string, body string) (int, string) {
	t.Helper()
	status, reply, err := s.send(t, method, path, header, body)
	require.NoError(t, err)
	return status, reply
}

// adminClient keeps no connections, so that none outlives its sidecar.
var adminClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (s *sidecar) send(t *testing.T, method, path string, header map[string]string, body string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.admin+path, strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := adminClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	return response.StatusCode, string(reply), err
}

func (s *sidecar) awaitReady(t *testing.T, within time.Duration) {
	t.Helper()
	s.awaitReadyz(t, http.StatusOK, within)
}

func (s *sidecar) awaitReadyz(t *testing.T, status int, within time.Duration) {
	t.Helper()
	var got int
	var body string
	eventually(t, within, func() bool {
		got, body = s.tryGet(t, "/readyz")
		return got == status
	}, func() string { return fmt.Sprintf("/readyz is %d %q, not %d", got, body, status) })
}

// workers returns the ids of this process's registrations, oldest first.
func (s *sidecar) workers(t *testing.T, db database) []string {
	t.Helper()
	var ids []string
	require.NoError(t, db.QueryRow(t.Context(), `SELECT coalesce(array_agg(id ORDER BY started_at), '{}') FROM sched.worker WHERE pid = $1`,
		s.cmd.Process.Pid).Scan(&ids))
	return ids
}

// logBuffer keeps what a sidecar prints.
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
		var entry struct {
			Msg  string `json:"msg"`
			Addr string `json:"addr"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Addr != "" && (strings.Contains(entry.Msg, "ready") || strings.Contains(entry.Msg, "admin")) {
			return "http://" + entry.Addr
		}
	}
	return ""
}
