//go:build verify

package release_test

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/sched-sidecar/sched"
	// release is a version that was never released.
	release = "v0.0.99-test"
)

// `go install module/cmd/…@version`, as somebody who has nothing of this module:
// from a proxy in a directory, which has it as one commit would be published.
func TestVerifyGoInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proxy := filepath.Join(dir, "proxy")
	publish(t, proxy)
	// Other modules come from those that are downloaded already.
	others := filepath.Join(strings.TrimSpace(run(t, root, nil, "go", "env", "GOMODCACHE")), "cache", "download")
	env := []string{
		"GOPATH=" + filepath.Join(dir, "go"), "GOMODCACHE=", "GOBIN=", "GOWORK=off", "GOSUMDB=off", "GONOPROXY=", "GOPRIVATE=",
		"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(others),
		"GOFLAGS=-modcacherw -trimpath", // so that the directory can be removed again
	}
	for _, program := range programs {
		run(t, dir, env, "go", "install", module+"/cmd/"+program+"@"+release)
		require.Contains(t, run(t, dir, nil, filepath.Join(dir, "go", "bin", program), "version"), program+" "+release+" (")
	}
}

// `go install ./cmd/...` in a checkout.
func TestVerifyGoInstallFromCheckout(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	run(t, root, []string{"GOBIN=" + bin}, "go", "install", "./cmd/...")
	for _, program := range programs {
		require.Contains(t, run(t, bin, nil, filepath.Join(bin, program), "version"), program+" ")
	}
}

// publish writes this tree into a module proxy's directory.
func publish(t *testing.T, proxy string) {
	t.Helper()
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.NotContains(t, string(mod), "\nreplace ", "go install refuses a module that replaces others")
	require.NotContains(t, string(mod), "\nexclude ", "go install refuses a module that excludes others")
	for name, content := range map[string]string{
		"list": release + "\n", release + ".mod": string(mod), release + ".info": `{"Version":"` + release + `"}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}

	file, err := os.Create(filepath.Join(dir, release+".zip"))
	require.NoError(t, err)
	archive := zip.NewWriter(file)
	for _, name := range published(t) {
		add(t, archive, name)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, file.Close())
}

// published lists the module's files: what git has, or would add, without those of
// nested modules.
func published(t *testing.T) []string {
	t.Helper()
	all := strings.Split(strings.TrimSpace(run(t, root, nil, "git", "ls-files", "--cached", "--others", "--exclude-standard")), "\n")
	var nested []string
	for _, name := range all {
		if dir, ok := strings.CutSuffix(name, "/go.mod"); ok {
			nested = append(nested, dir+"/")
		}
	}
	var names []string
next:
	for _, name := range all {
		for _, dir := range nested {
			if strings.HasPrefix(name, dir) {
				continue next
			}
		}
		names = append(names, name)
	}
	return names
}

func add(t *testing.T, archive *zip.Writer, name string) {
	t.Helper()
	source, err := os.Open(filepath.Join(root, filepath.FromSlash(name)))
	if os.IsNotExist(err) {
		return // removed, but not yet for git
	}
	require.NoError(t, err)
	defer source.Close()
	if info, err := source.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	target, err := archive.Create(module + "@" + release + "/" + name)
	require.NoError(t, err)
	_, err = io.Copy(target, source)
	require.NoError(t, err)
}
