package recipes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recipes are the shops. What each needs is looked for where its users have it.
var recipes = []recipe{
	{name: "go-pgx", prepare: goShop("go-pgx")},
	{name: "go-sql", prepare: goShop("go-sql")},
	{name: "node", prepare: nodeShop, debian: []string{"nodejs", "npm"}},
	{name: "python", prepare: pythonShop("python", "psql"), debian: []string{"python3", "postgresql-client"}},
	{name: "psycopg", prepare: pythonShop("psycopg", "", "psycopg"), debian: []string{"python3-psycopg"}},
	{name: "django", prepare: pythonShop("django", "", "django", "psycopg2"), debian: []string{"python3-django", "python3-psycopg2"}},
	{
		name: "sqlalchemy", prepare: pythonShop("sqlalchemy", "", "sqlalchemy", "psycopg2"),
		debian: []string{"python3-sqlalchemy", "python3-psycopg2"},
	},
	{
		name: "rails", prepare: railsShop,
		debian: []string{"ruby", "ruby-activerecord", "ruby-actionpack", "ruby-railties", "ruby-pg", "puma"},
	},
	{name: "laravel", base: "/api", prepare: laravelShop, debian: []string{"php-cli", "php-pgsql", "php-laravel-framework"}},
	{
		name: "spring", prepare: springShop,
		debian: []string{
			"default-jdk-headless", "libpostgresql-jdbc-java", "libspring-web-servlet-java", "libspring-jdbc-java",
			"libspring-transaction-java", "libjetty9-java", "libjackson2-databind-java",
		},
	},
	{name: "java", prepare: javaShop, debian: []string{"default-jdk-headless", "libpostgresql-jdbc-java"}},
}

func goShop(name string) func(*testing.T) (func(string) *exec.Cmd, string) {
	return func(t *testing.T) (func(string) *exec.Cmd, string) {
		t.Helper()
		path := binary(t, name)
		return func(string) *exec.Cmd { return exec.Command(path) }, ""
	}
}

// nodeShop installs pg into a copy of the recipe.
func nodeShop(t *testing.T) (func(string) *exec.Cmd, string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, program + " is missing"
		}
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("node")))
	install := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund",
		"--fetch-retries=0", "--fetch-timeout=20000")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		for _, ours := range []string{"EUSAGE", "EJSONPARSE", "EINTEGRITY"} { // mistakes in the recipe
			require.NotContains(t, string(out), ours)
		}
		return nil, "the npm package pg is missing, and npm can't get it: " + string(out)
	}
	return func(string) *exec.Cmd {
		cmd := exec.Command("node", "app.js")
		cmd.Dir = dir
		return cmd
	}, ""
}

// pythonShop runs app.py with the first Python that has the modules.
func pythonShop(name, program string, modules ...string) func(*testing.T) (func(string) *exec.Cmd, string) {
	return func(t *testing.T) (func(string) *exec.Cmd, string) {
		t.Helper()
		if program != "" {
			if _, err := exec.LookPath(program); err != nil {
				return nil, program + " is missing"
			}
		}
		imports := "import " + strings.Join(append([]string{"sys"}, modules...), ", ")
		// Debian's packages are for its own Python, which needn't be the first in PATH.
		for _, python := range []string{"python3", "/usr/bin/python3"} {
			probe := exec.CommandContext(t.Context(), python, "-c", imports+"; assert sys.version_info >= (3, 9)")
			probe.Dir = "/" // here, a directory is called like a module
			if probe.Run() == nil {
				return func(string) *exec.Cmd { return exec.Command(python, filepath.Join(name, "app.py")) }, ""
			}
		}
		return nil, fmt.Sprintf("no Python from 3.9 on with the modules %v", modules)
	}
}

func railsShop(t *testing.T) (func(string) *exec.Cmd, string) {
	t.Helper()
	for _, program := range []string{"ruby", "puma"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, program + " is missing"
		}
	}
	const gems = "require 'active_record'; require 'action_controller'; require 'rails'; require 'pg'"
	if out, err := exec.CommandContext(t.Context(), "ruby", "-e", gems).CombinedOutput(); err != nil {
		return nil, "a gem of rails or pg is missing: " + string(out)
	}
	return func(port string) *exec.Cmd {
		cmd := exec.Command("puma", "--bind", "tcp://127.0.0.1:"+port, "--environment", "production", "config.ru")
		cmd.Dir = "rails"
		return cmd
	}, ""
}

func laravelShop(t *testing.T) (func(string) *exec.Cmd, string) {
	t.Helper()
	if _, err := exec.LookPath("php"); err != nil {
		return nil, "php is missing"
	}
	const probe = "require 'Illuminate/autoload.php'; exit(extension_loaded('pdo_pgsql') && class_exists('Illuminate\\Routing\\Router') ? 0 : 1);"
	if exec.CommandContext(t.Context(), "php", "-r", probe).Run() != nil {
		return nil, "php lacks pdo_pgsql, or Laravel in its include path"
	}
	return func(port string) *exec.Cmd {
		return exec.Command("php", "-S", "127.0.0.1:"+port, filepath.Join("laravel", "index.php"))
	}, ""
}

// springJars are what Debian calls the jars that the recipe needs.
var springJars = []string{
	"spring3-aop", "spring3-beans", "spring3-context", "spring3-core", "spring3-expression", "spring3-jdbc", "spring3-transaction",
	"spring3-web", "spring3-web.servlet", "aopalliance", "commons-logging", "jackson-core", "jackson-annotations", "jackson-databind",
	"jetty9-http", "jetty9-io", "jetty9-security", "jetty9-server", "jetty9-servlet", "jetty9-util", "servlet-api", "postgresql",
}

func springShop(t *testing.T) (func(string) *exec.Cmd, string) {
	t.Helper()
	for _, program := range []string{"java", "javac"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, program + " is missing"
		}
	}
	classes := t.TempDir()
	path := []string{classes, "spring"}
	for _, name := range springJars {
		jar := filepath.Join("/usr/share/java", name+".jar")
		if _, err := os.Stat(jar); err != nil {
			return nil, jar + " is missing"
		}
		path = append(path, jar)
	}
	classpath := strings.Join(path, ":")
	sources, err := filepath.Glob("spring/*.java")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "javac", append([]string{"-d", classes, "-cp", classpath}, sources...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	return func(string) *exec.Cmd {
		return exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Main")
	}, ""
}

func javaShop(t *testing.T) (func(string) *exec.Cmd, string) {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil {
		return nil, "java is missing"
	}
	driver := jdbcDriver()
	if driver == "" {
		return nil, "the JDBC driver is missing: no postgresql.jar in /usr/share/java, no org.postgresql:postgresql in Maven's repository"
	}
	if out, err := exec.CommandContext(t.Context(), "java", "--list-modules").Output(); err != nil || !strings.Contains(string(out), "jdk.compiler") {
		return nil, "java is no JDK: it can't compile"
	}
	return func(string) *exec.Cmd {
		return exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp", driver, filepath.Join("java", "App.java"))
	}, ""
}

func jdbcDriver() string {
	patterns := []string{"/usr/share/java/postgresql.jar"}
	if home, err := os.UserHomeDir(); err == nil {
		patterns = append(patterns, filepath.Join(home, ".m2/repository/org/postgresql/postgresql/*/postgresql-*.jar"))
	}
	for _, pattern := range patterns {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}
