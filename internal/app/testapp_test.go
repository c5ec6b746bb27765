package app

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// appVariable makes this test binary an app that a sidecar can run beside. Its value says how the app behaves, as words:
//
//	late      serves once the file "go" exists
//	stubborn  ignores SIGTERM
//	polite    exits with 7 on SIGTERM
//	hasty     exits with 3 once it has answered a task
//	done      exits with 0 once it has answered a task
//	hup       writes the file "hup" on SIGHUP
const appVariable = "APP_TEST_APP"

// runTestApp serves on PORT. What a task's kind asks for comes to pass; each one is written to the file "served".
func runTestApp(mood string) int {
	is := func(word string) bool { return strings.Contains(mood, word) }
	if is("stubborn") {
		signal.Ignore(syscall.SIGTERM)
	}
	term, hup := make(chan os.Signal, 1), make(chan os.Signal, 1)
	if is("polite") {
		signal.Notify(term, syscall.SIGTERM)
	}
	if is("hup") {
		signal.Notify(hup, syscall.SIGHUP)
	}
	for is("late") {
		if _, err := os.Stat("go"); err == nil {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	answered := make(chan struct{}, 1000)
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			answerTask(w, r)
			answered <- struct{}{}
		})}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	if err := os.WriteFile("up", []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return 1
	}
	for {
		select {
		case err := <-failed:
			fmt.Fprintln(os.Stderr, err)
			return 1
		case <-term:
			return 7
		case <-hup:
			_ = os.WriteFile("hup", []byte("hup\n"), 0o600)
		case <-answered:
			switch {
			case is("hasty"):
				return 3
			case is("done"):
				return 0
			}
		}
	}
}

func answerTask(w http.ResponseWriter, r *http.Request) {
	kind := filepath.Base(r.URL.Path)
	switch kind {
	case "ok":
		w.WriteHeader(http.StatusOK)
	case "flaky": // fails once
		if r.Header.Get("Sched-Attempt") == "1" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	case "busy": // put off once
		if _, err := os.Stat("busy"); err != nil {
			_ = os.WriteFile("busy", nil, 0o600)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "bad":
		http.Error(w, "no use", http.StatusBadRequest)
	case "fails":
		http.Error(w, "boom", http.StatusInternalServerError)
	case "slow": // until the file "go" exists
		_ = os.WriteFile("slow", []byte("begun\n"), 0o600)
		for {
			if _, err := os.Stat("go"); err == nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
