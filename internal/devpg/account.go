package devpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that the server runs as: our own, except for root, which Postgres refuses.
type account struct {
	name     string
	uid, gid int
	drop     bool // we're root and give up its rights for the server
}

// ErrNoAccount is returned by Start as root when the machine has neither the user postgres nor nobody.
var ErrNoAccount = errors.New("there is no user postgres or nobody, and as root Postgres refuses to run: " +
	"create one of them, or start as another user")

func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "uid " + strconv.Itoa(os.Geteuid()), uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 != nil || err2 != nil || uid == 0 {
			continue
		}
		return account{name: name, uid: uid, gid: gid, drop: true}, nil
	}
	return account{}, ErrNoAccount
}

// apply makes cmd run as the account, in a session of its own: a Ctrl-C in the terminal is for our process, which then
// stops the server in order.
func (a account) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	cmd.Env = serverEnv(os.Environ())
}

// serverEnv drops what would steer Postgres behind our back: PGPORT and its like, and the language of its messages.
func serverEnv(environ []string) []string {
	env := make([]string, 0, len(environ)+1)
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "LANG") {
			continue
		}
		env = append(env, kv)
	}
	return append(env, "LC_ALL=C")
}

// own gives a file or directory that we made to the account.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// canReach reports an error when the account may not enter dir: /root, say, or a home directory of another user.
func (a account) canReach(dir string) error {
	if !a.drop {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !a.canEnter(info) {
			return fmt.Errorf("user %s, which the server runs as, may not enter %s: choose another directory, or allow it with chmod o+x",
				a.name, dir)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

func (a account) canEnter(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	switch {
	case int(st.Uid) == a.uid:
		return info.Mode()&0o100 != 0
	case int(st.Gid) == a.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}
