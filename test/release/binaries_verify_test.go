//go:build verify

package release_test

import (
	"debug/elf"
	"debug/macho"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository.
const root = "../.."

var programs = []string{"sched", "sched-sidecar"}

func TestVerifyMakeBuild(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make on this machine: ", err)
	}
	const stamp = "v9.8.7-test"
	dir := t.TempDir()
	run(t, root, nil, "make", "build", "VERSION="+stamp, "BIN_DIR="+filepath.Join(dir, "bin"), "DIST_DIR="+filepath.Join(dir, "dist"))

	for _, program := range programs {
		own := filepath.Join(dir, "bin", program)
		if runtime.GOOS == "linux" {
			requireStaticELF(t, own, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH])
		}
		out := run(t, dir, nil, own, "version")
		require.Contains(t, out, program+" "+stamp+" (")
		require.Contains(t, out, runtime.GOOS+"/"+runtime.GOARCH)

		requireStaticELF(t, filepath.Join(dir, "dist", "linux-amd64", program), elf.EM_X86_64)
		requireStaticELF(t, filepath.Join(dir, "dist", "linux-arm64", program), elf.EM_AARCH64)
		requireMachO(t, filepath.Join(dir, "dist", "darwin-arm64", program), macho.CpuArm64)
		// The stamp is in the others too, which can't be run here.
		for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-arm64"} {
			content, err := os.ReadFile(filepath.Join(dir, "dist", platform, program))
			require.NoError(t, err)
			require.Contains(t, string(content), stamp)
			require.NotContains(t, string(content), absolute(t, root), "a path of the machine that built it")
		}
	}
}

// requireStaticELF: no interpreter and no shared libraries, so it runs in an empty
// container.
func requireStaticELF(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	require.Equal(t, machine, file.Machine, path)
	for _, part := range file.Progs {
		require.NotEqual(t, elf.PT_INTERP, part.Type, "%s needs an interpreter", path)
		require.NotEqual(t, elf.PT_DYNAMIC, part.Type, "%s is linked dynamically", path)
	}
}

// requireMachO: macOS has no static binaries; libraries are the system's alone.
func requireMachO(t *testing.T, path string, cpu macho.Cpu) {
	t.Helper()
	file, err := macho.Open(path)
	require.NoError(t, err)
	defer file.Close()
	require.Equal(t, cpu, file.Cpu, path)
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	for _, library := range libraries {
		require.Regexp(t, "^/(usr/lib|System/Library)/", library)
	}
}

// run runs a command to its end and returns what it printed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}
