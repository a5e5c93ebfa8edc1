package clients

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A library is a client library, as a test starts it.
type library struct {
	name, version string
	protocol      string // that it uses by default
	// setting is what its users must set; wait its timeout by default.
	setting, wait string
	program       []string
	// exceptions: a command of the scenario -> why its result may differ from the control's.
	exceptions map[string]string
}

// cache is the directory into which .ci/deps installs the libraries.
func cache() string {
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		dir = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(dir, "mcmw", "clients")
}

func python(name string) []string {
	return []string{filepath.Join(cache(), "python", "bin", "python"), "python/client.py", name}
}

func node(name string) []string { return []string{"node", "node/client.cjs", name} }

func java(name string) []string {
	return []string{"java", "-cp", filepath.Join(cache(), "java", "*") + ":" + built("java"), "Client", name}
}

func built(language string) string { return filepath.Join(cache(), "built", language) }

func golang(name string) []string { return []string{built("golang"), name} }

func rust(name string) []string {
	return []string{filepath.Join(built("rust"), "debug", "client"), name}
}

// libraries are those that speak text or meta, by default or as set by their program.
var libraries = []library{
	{
		name: "pymemcache", version: "4.0.0", protocol: "text", setting: "`connect_timeout`, `timeout`", wait: "none",
		program: python("pymemcache"),
	},
	{
		name: "python-memcached", version: "1.62", protocol: "text", wait: "3 s, then dead for 30 s",
		program: python("python_memcached"),
	},
	{name: "pylibmc", version: "1.6.3", protocol: "text", wait: "5 s", program: python("pylibmc")},
	{
		name: "aiomcache", version: "0.8.2", protocol: "text", setting: "a time for each call", wait: "none",
		program: python("aiomcache"),
	},
	{name: "emcache", version: "1.3.3", protocol: "text", wait: "1 s", program: python("emcache")},
	{
		name: "meta-memcache", version: "4.3.0", protocol: "meta",
		setting: "no cas with several writers: it takes a token above 32 bits for none", wait: "1 s",
		program: python("meta_memcache"), exceptions: map[string]string{
			"cas c c4": "it takes a token above 32 bits for none, and stores unconditionally",
			"get c":    "the same",
		},
	},
	{name: "memcached (npm)", version: "2.2.2", protocol: "text", wait: "5 s", program: node("memcached")},
	{name: "memcache-client (npm)", version: "1.0.5", protocol: "text", wait: "5 s", program: node("memcache-client")},
	{name: "memcache-plus (npm)", version: "0.3.1", protocol: "text", wait: "0.5 s", program: node("memcache-plus")},
	{
		name: "gomemcache", version: "2026-04-22", protocol: "text", setting: "`Timeout`, above that of mcmw",
		wait: "0.5 s", program: golang("gomemcache"),
	},
	{
		name: "grafana/gomemcache", version: "2025-11-27", protocol: "text", setting: "`Timeout`, above that of mcmw",
		wait: "0.1 s", program: golang("grafana"),
	},
	{name: "spymemcached", version: "2.12.3", protocol: "text", wait: "2.5 s", program: java("spymemcached")},
	{name: "xmemcached", version: "2.4.8", protocol: "text", wait: "5 s", program: java("xmemcached")},
	{
		name: "memcache (Rust)", version: "0.21.0", protocol: "binary", setting: "`?protocol=ascii&timeout=2`",
		wait: "none", program: rust("ascii"),
	},
	{
		name: "Cache::Memcached", version: "1.30 (Debian 12)", protocol: "text", wait: "1 s",
		program: []string{"perl", "perl/client.pl", "Cache::Memcached"},
	},
	{
		name: "Cache::Memcached::Fast", version: "0.28 (Debian 12)", protocol: "text", wait: "1 s",
		program: []string{"perl", "perl/client.pl", "Cache::Memcached::Fast"},
	},
	{
		name: "PHP Memcached", version: "3.2.0 (Debian 12)", protocol: "text; sessions binary",
		setting: "sessions: `memcached.sess_binary_protocol=0`", wait: "5 s",
		program: []string{"php", "php/client.php", "Memcached"},
	},
	{
		name: "PHP Memcache", version: "8.0 (Debian 12)", protocol: "text", wait: "1 s",
		program: []string{"php", "php/client.php", "Memcache"},
	},
}

// binaries speak only the binary protocol, or are set to it.
var binaries = []library{
	{name: "PHP Memcached", program: []string{"php", "php/client.php", "Memcached-binary"}},
	{name: "python-binary-memcached", program: python("bmemcached")},
	{name: "memjs", program: node("memjs")},
	{name: "Dalli", program: []string{"ruby", "ruby/client.rb", "binary"}},
	{name: "memcache (Rust)", program: rust("binary")},
}

// build compiles the programs that need it, once.
var build = sync.OnceValue(func() error {
	for _, c := range []struct {
		language string
		command  []string
	}{
		{"golang", []string{"go", "build", "-o", built("golang"), "./golang"}},
		{"java", []string{
			"javac", "-cp", filepath.Join(cache(), "java", "*"), "-d", built("java"),
			"java/Client.java",
		}},
		{"rust", []string{
			"cargo", "build", "--quiet", "--manifest-path", "rust/Cargo.toml", "--target-dir",
			built("rust"),
		}},
	} {
		if out, err := exec.Command(c.command[0], c.command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("the program in test/clients/%s: %w: %s; `.ci/deps clients` installs what it needs",
				c.language, err, out)
		}
	}
	return nil
})

// session is a running program of a library.
type session struct {
	stdin   io.Writer
	answers chan string
	stderr  bytes.Buffer
	hung    bool // a late answer would look like that of the next command
}

// patience is how long a library may take for an answer before the test calls it hung. It is longer than the libraries'
// own timeouts.
const patience = 15 * time.Second

func start(t *testing.T, l library, addr string) *session {
	t.Helper()
	require.NoError(t, build())
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command(l.program[0], append(l.program[1:len(l.program):len(l.program)], host, port)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(cache(), "node", "node_modules"))
	s := &session{answers: make(chan string, 1)}
	s.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = &s.stderr
	require.NoError(t, cmd.Start(), "%s cannot be started; `.ci/deps clients` installs it", l.name)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			s.answers <- lines.Text()
		}
		close(s.answers)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range s.answers { // until the program's output ends
		}
		<-ended
		_ = cmd.Wait()
	})
	select {
	case ready := <-s.answers:
		if ready != "ready" {
			_ = cmd.Process.Kill()
			for range s.answers {
			}
			require.Equal(t, "ready", ready, "%s does not start; `.ci/deps clients` installs it: %s", l.name,
				s.stderr.String())
		}
	case <-time.After(4 * patience):
		require.Fail(t, l.name+" does not start")
	}
	return s
}

// hung is the answer of a library that gives none within patience. Nothing more can be asked then.
const hung = "no answer"

func (s *session) do(t *testing.T, command string) (answer string, took time.Duration) {
	t.Helper()
	return s.await(t, command, patience)
}

func (s *session) await(t *testing.T, command string, patience time.Duration) (answer string, took time.Duration) {
	t.Helper()
	if s.hung {
		return hung, 0
	}
	began := time.Now()
	_, err := io.WriteString(s.stdin, command+"\n")
	require.NoError(t, err)
	select {
	case answer, ok := <-s.answers:
		require.True(t, ok, "the program ended at %q", command)
		return strings.TrimSpace(answer), time.Since(began)
	case <-time.After(patience):
		s.hung = true
		return hung, patience
	}
}
