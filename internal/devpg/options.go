package devpg

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Options says what server to start. The zero value is a durable server in a temporary directory on a free port.
type Options struct {
	// Dir keeps the server's data, log and password from one start to the next. It's made when missing; an existing
	// one must be empty or made by this package. Empty: a temporary directory that Stop removes.
	Dir string

	// Keep leaves the temporary directory in place after Stop, to look into it. A directory given by Dir is always kept.
	Keep bool

	// Port on 127.0.0.1; 0 takes the first of PreferPorts that is free, or else any free one.
	Port        int
	PreferPorts []int

	// Fast trades durability for speed: fsync, synchronous_commit and full_page_writes off. The last commits and the
	// whole directory may be lost when the server is killed, so it's for tests that don't kill it.
	Fast bool

	// Settings are written to the server's configuration, over this package's own: "work_mem": "64MB".
	Settings map[string]string

	// BinDir is the directory of the server binaries; empty means to look for them.
	BinDir string

	// Version wants a major version, "16"; empty takes what is found first.
	Version string

	// NoInstall never downloads or installs binaries; only those on the machine are used.
	NoInstall bool

	// Logger gets starts and stops, and announces downloads and installations. Nil: warnings go to standard error.
	Logger *slog.Logger
}

var (
	settingName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)
	majorVersion = regexp.MustCompile(`^[1-9][0-9]$`)
)

func (o *Options) validate() error {
	for _, port := range append([]int{o.Port}, o.PreferPorts...) {
		if port < 0 || port > 65535 {
			return fmt.Errorf("devpg: port %d is out of range: use 1 to 65535, or 0 for a free one", port)
		}
	}
	if o.Version != "" && !majorVersion.MatchString(o.Version) {
		return fmt.Errorf("devpg: version %q is not a Postgres major version: use one like \"16\"", o.Version)
	}
	for name, value := range o.Settings {
		if !settingName.MatchString(name) {
			return fmt.Errorf("devpg: %q is not the name of a Postgres setting", name)
		}
		if strings.ContainsAny(value, "\n\r\x00") {
			return fmt.Errorf("devpg: the value of setting %s has a line break; Postgres settings fit in one line", name)
		}
	}
	return nil
}

func (o *Options) logger() *slog.Logger {
	if o.Logger != nil {
		return o.Logger
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// config renders the settings as a Postgres configuration file, sorted so that it reads the same each time.
func (o *Options) config(port int, socketDir string) string {
	settings := map[string]string{
		"max_connections": "300",
		"shared_buffers":  "128MB",
		"timezone":        "UTC",
		"log_timezone":    "UTC",
		"log_line_prefix": "%m [%p] %d ",
	}
	if o.Fast {
		settings["fsync"] = "off"
		settings["synchronous_commit"] = "off"
		settings["full_page_writes"] = "off"
		// Kept in files that go with the directory: the POSIX kind outlives a killed server in /dev/shm.
		settings["dynamic_shared_memory_type"] = "mmap"
		settings["max_wal_size"] = "256MB" // a checkpoint without fsync is cheap, memory may not be
	}
	maps.Copy(settings, o.Settings)
	// These are ours: the server's privacy and our way to reach it hang on them.
	settings["listen_addresses"] = loopback
	settings["port"] = strconv.Itoa(port)
	settings["unix_socket_directories"] = socketDir
	settings["unix_socket_permissions"] = "0700"
	settings["logging_collector"] = "off"
	settings["log_destination"] = "stderr"

	// A quote is doubled, and a backslash too: Postgres reads escapes in its configuration file.
	quote := strings.NewReplacer(`'`, `''`, `\`, `\\`)
	var b strings.Builder
	b.WriteString("# Written at each start; put changes into the start options, or use ALTER SYSTEM.\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, quote.Replace(settings[name]))
	}
	return b.String()
}
