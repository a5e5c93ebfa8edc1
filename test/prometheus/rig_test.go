package prometheus

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/load"
)

// patience only turns a hang into a failure: the machine may be busy.
const patience = 2 * time.Minute

// root is the directory of mcmw's own module.
const root = "../.."

// startLoaded starts three memcached servers, mcmw in front of them and a load, all until the test ends, and returns
// mcmw's admin address. The servers have a shadow and a pool that follows, the load has a user, and a migration of
// another pool is configured.
func startLoaded(t *testing.T) (admin string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "mcmw")
	build := exec.Command("go", "build", "-o", binary, "./cmd/mcmw")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "go build: %s", out)

	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("anna:secret\n"), 0o600))
	args := []string{
		"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "4", "--sharded",
		"--log-format", "json", "--config", writePools(t), "--auth-file", users,
	}
	listen, admin := startProgram(t, binary, args...)
	startLoad(t, listen)
	return admin
}

// writePools starts servers, and writes a file with their pools.
func writePools(t *testing.T) (file string) {
	t.Helper()
	addrs := func(servers []*mctest.Server) string {
		var addrs []string
		for _, s := range servers {
			addrs = append(addrs, s.Addr())
		}
		return strings.Join(addrs, ", ")
	}
	tomorrow := time.Now().Add(24 * time.Hour).UTC()
	text := fmt.Sprintf(`pools:
  live: {servers: [%s], follow: [{pool: far, what: deletes}]}
  far: {servers: [%s]}
  test: {servers: [%s]}
  old: {servers: [%s], writers: several}
  new: {servers: [%s], writers: several}
routes:
  - {prefix: "moving:", pool: old}
  - {default: live}
shadows:
  - {of: live, to: test, share: 1, what: all}
migrations:
  - {from: old, to: new, start: %s, end: %s}
`, addrs(mctest.StartMemcacheds(t, 3)), addrs(mctest.StartMemcacheds(t, 1)), addrs(mctest.StartMemcacheds(t, 1)),
		addrs(mctest.StartNewMemcacheds(t, 1)), addrs(mctest.StartNewMemcacheds(t, 1)),
		tomorrow.Format(time.RFC3339), tomorrow.Add(time.Hour).Format(time.RFC3339))
	file = filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// startProgram runs mcmw until the test ends and returns its addresses.
func startProgram(t *testing.T, binary string, args ...string) (listen, admin string) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	found, ended := make(chan struct{}), make(chan struct{})
	var log []byte
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			var entry struct {
				Msg, Address string
				Listen       []string
			}
			if json.Unmarshal(lines.Bytes(), &entry) == nil && listen == "" {
				switch entry.Msg {
				case "admin server listens":
					admin = entry.Address
				case "ready":
					listen = entry.Listen[0]
					close(found)
				}
			}
			log = append(append(log, lines.Bytes()...), '\n')
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("mcmw wrote:\n%s", log)
		}
	})
	select {
	case <-found:
	case <-ended:
		require.FailNow(t, "mcmw has ended", "%s", log)
	case <-time.After(patience):
		require.FailNow(t, "mcmw does not become ready")
	}
	return listen, admin
}

// startLoad sends requests of several kinds until the test ends.
func startLoad(t *testing.T, target string) {
	t.Helper()
	g, err := load.New(load.Options{
		Targets: []string{target}, Connections: 2, Sets: 1, Gets: 9, KeysPerGet: 3, KeyMin: 1, KeyMax: 1000,
		Populate: true, User: "anna", Password: "secret",
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := g.Run(ctx)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}
