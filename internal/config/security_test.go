package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
	"mcmw/internal/secret"
)

// inDir writes files with their contents to a new directory and makes it the current one.
func inDir(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

// issue writes ca.pem, cert.pem and key.pem to the current directory.
func issue(t *testing.T) {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	ca := mctest.NewCA(t)
	ca.IssueTo(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	require.NoError(t, os.Symlink(ca.File, "ca.pem"))
}

func TestEverySecurityOptionReachesTheMiddleware(t *testing.T) {
	inDir(t, map[string]string{"users": "a:b\n", "login": "c:d\n"})
	issue(t)
	c := sources{args: []string{
		"-m", "a", "-l", "0.0.0.0,notls:127.0.0.1,notls:[::1]:3,unix:/run/m.sock", "-p", "2",
		"--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "ca.pem", "--handshake-timeout", "7s",
		"--auth-file", "users",
		"--server-tls", "--server-tls-ca", "ca.pem", "--server-tls-cert", "cert.pem", "--server-tls-key", "key.pem",
		"--server-tls-name", "memcached", "--server-auth-file", "login",
	}}.load(t)
	require.Equal(t, middleware.Security{
		TLS:              secret.ServerFiles{Cert: "cert.pem", Key: "key.pem", ClientCA: "ca.pem"},
		HandshakeTimeout: 7 * time.Second,
		AuthFile:         "users",
		ServerTLS:        true,
		ServerFiles:      secret.ClientFiles{CA: "ca.pem", Cert: "cert.pem", Key: "key.pem", Name: "memcached"},
		ServerAuthFile:   "login",
	}, c.Security)
	require.Equal(t, []string{"0.0.0.0:2", "notls:127.0.0.1:2", "notls:[::1]:3", "unix:/run/m.sock"}, c.ListenAddrs())
}

func TestAFileOfSecretsThatEverybodyCanReadIsAWarning(t *testing.T) {
	inDir(t, map[string]string{"users": "a:b\n", "login": "c:d\n"})
	issue(t)
	s := sources{args: []string{
		"-m", "a", "--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "ca.pem", "--auth-file",
		"users",
		"--server-tls", "--server-tls-ca", "ca.pem", "--server-tls-cert", "cert.pem", "--server-tls-key", "key.pem",
		"--server-auth-file", "login",
	}}
	require.NoError(t, os.Chmod("cert.pem", 0o644))
	require.Empty(t, s.load(t).Warnings)
	for _, path := range []string{"users", "login", "key.pem"} {
		require.NoError(t, os.Chmod(path, 0o604))
		warnings := s.load(t).Warnings
		require.Contains(t, warnings,
			path+" holds secrets and has mode 0604: every user of this machine can read it; use chmod o-rwx")
		require.NoError(t, os.Chmod(path, 0o640))
	}
}

func TestFilesThatCannotBeUsedAreNamedWithTheirOption(t *testing.T) {
	inDir(t, map[string]string{"empty": "", "text": "hidden\n", "two": "a:b\nc:d\n"})
	issue(t)
	tls := []string{"-m", "a", "--tls-cert", "cert.pem", "--tls-key", "key.pem"}
	server := []string{"-m", "a", "--server-tls"}
	for message, args := range map[string][]string{
		`flag --tls-cert: "empty": holds no certificate in PEM form`: append(tls, "--tls-cert", "empty"),
		`flag --tls-cert: "key.pem": holds no certificate in PEM form`: append(tls, "--tls-cert",
			"key.pem"),
		`flag --tls-key: "nowhere": no such file or directory`: append(tls, "--tls-key",
			"nowhere"),
		`flag --tls-key: "text": holds no private key in PEM form`: append(tls, "--tls-key", "text"),
		`flag --tls-client-ca: "empty": holds no certificate in PEM form`: append(tls, "--tls-client-ca",
			"empty"),
		`flag --server-tls-ca: "empty": holds no certificate in PEM form`: append(server, "--server-tls-ca",
			"empty"),
		`flag --server-tls-cert: "cert.pem" needs server-tls-key, which is missing`: append(server, "--server-tls-cert",
			"cert.pem"),
		`flag --server-tls-key: "empty": holds no private key in PEM form`: append(server, "--server-tls-cert",
			"cert.pem", "--server-tls-key", "empty"),
		`flag --auth-file: "text": line 1 is not of the form user:password`: {
			"-m",
			"a", "--auth-file", "text",
		},
		`flag --auth-file: "empty": is empty; accepted: lines user:password`: {
			"-m",
			"a", "--auth-file", "empty",
		},
		`flag --auth-file: ".": is a directory`: {
			"-m",
			"a", "--auth-file", ".",
		},
		`flag --server-auth-file: "two": has 2 lines; accepted: one line user:password`: {
			"-m",
			"a", "--server-auth-file", "two",
		},
		`flag -l, --listen: "127.0.0.1:11311" is given twice`:                                                  append(tls, "-l", "127.0.0.1", "-l", "notls:127.0.0.1"),
		`flag -m, --servers: "127.0.0.1:11311" is an address mcmw itself listens on`:                           append(tls[2:], "-l", "notls:127.0.0.1", "-m", "127.0.0.1:11311"),
		`flag --admin: "127.0.0.1:11311" is already an address for clients; accepted: another address, or off`: append(tls, "-l", "notls:127.0.0.1", "--admin", "127.0.0.1:11311"),
	} {
		require.Equal(t, []string{message}, refused(t, sources{args: args}))
	}
}

func TestServersThatAreLookedUpShouldHaveANameForTheirCertificates(t *testing.T) {
	args := []string{"-m", "a", "dns+cache.local", "--server-tls"}
	require.Equal(t, []string{
		"server-tls without server-tls-name: mcmw connects to the servers of dns+cache.local:11211 by IP address, so " +
			"their certificates must be valid for those addresses",
	}, sources{args: args}.load(t).Warnings)
	require.Empty(t, sources{args: append(args, "--server-tls-name", "cache.local")}.load(t).Warnings)
}

func TestEachPoolsServersHaveTLSOrNot(t *testing.T) {
	const pools = "pools:\n  a: {servers: [x]%s}\n  b: {servers: [dns+y]%s}\nroutes:\n  - {default: a}\n"
	for _, c := range []struct {
		beside, a, b string
		want         [3]bool // of some servers, of those of a, of b
	}{
		{"", "", "", [3]bool{}},
		{"server-tls: true\n", "", "", [3]bool{true, true, true}},
		{"server-tls: true\n", "", ", server-tls: false", [3]bool{true, true, false}},
		{"", ", server-tls: true", "", [3]bool{true, true, false}},
		{"", "", ", server-tls: true", [3]bool{true, false, true}},
		{"server-tls: true\n", ", server-tls: false", ", server-tls: false", [3]bool{}},
	} {
		loaded := sources{yaml: c.beside + fmt.Sprintf(pools, c.a, c.b)}.load(t)
		o := serving(loaded)
		require.Equal(t, c.want, [3]bool{o.Security.ServerTLS, o.Pools[0].ServerTLS, o.Pools[1].ServerTLS}, "%+v", c)
		require.Equal(t, c.want[2], len(loaded.Warnings) == 1, "%+v: %q", c, loaded.Warnings)
		endpoints := sources{yaml: strings.NewReplacer("[x]", "[cluster+x]", "dns+", "cluster+").
			Replace(c.beside + fmt.Sprintf(pools, c.a, c.b))}.load(t)
		specs := endpoints.AllLookups().Specs
		require.Equal(t, c.want[1:], []bool{specs[0].TLS, specs[1].TLS}, "the endpoints that list them: %+v", c)
	}
	require.Equal(t, []string{`mcmw.yaml:1: server-tls-name: "x" has no meaning without server-tls`},
		refused(t, sources{yaml: "server-tls-name: x\n" + fmt.Sprintf(pools, "", "")}))
}

func TestEachPoolHasItsOwnPasswordForItsServersOrNone(t *testing.T) {
	inDir(t, map[string]string{"all": "a:hidden\n", "own": "c:hidden\n", "text": "hidden\n"})
	dir, err := os.Getwd()
	require.NoError(t, err)
	all, own, text := filepath.Join(dir, "all"), filepath.Join(dir, "own"), filepath.Join(dir, "text")
	const pools = "pools:\n  a: {servers: [x]%s}\n  b: {servers: [y]}\nroutes:\n  - {default: a}\n"
	for _, c := range []struct {
		beside, a string
		want      [2]string
	}{
		{"", "", [2]string{}},
		{"server-auth-file: " + all + "\n", "", [2]string{all, all}},
		{"server-auth-file: " + all + "\n", ", server-auth-file: " + own, [2]string{own, all}},
		{"server-auth-file: " + all + "\n", ", server-auth-file: none", [2]string{"", all}},
		{"", ", server-auth-file: " + own, [2]string{own, ""}},
	} {
		loaded := sources{yaml: c.beside + fmt.Sprintf(pools, c.a)}.load(t)
		o := serving(loaded)
		require.Equal(t, c.want, [2]string{o.Pools[0].ServerAuthFile, o.Pools[1].ServerAuthFile}, "%+v", c)
		var printed strings.Builder
		require.NoError(t, loaded.Write(&printed, true))
		require.NotContains(t, printed.String(), "hidden")
	}
	require.Equal(t, []string{`mcmw.yaml:2: pools.a.server-auth-file: "` + text +
		`": line 1 is not of the form user:password`},
		refused(t, sources{yaml: fmt.Sprintf(pools, ", server-auth-file: "+text)}))
	require.Equal(t, []string{`mcmw.yaml:1: server-auth-file: "` + text + `": line 1 is not of the form user:password`},
		refused(t, sources{yaml: "server-auth-file: " + text + "\n" + fmt.Sprintf(pools, "")}))
	require.NoError(t, os.Chmod(own, 0o604))
	require.Len(t, sources{yaml: fmt.Sprintf(pools, ", server-auth-file: "+own)}.load(t).Warnings, 1)
}

func TestThePrintedConfigurationHasPathsAndNoContents(t *testing.T) {
	inDir(t, map[string]string{"users": "anna:hidden\n"})
	c := sources{args: []string{"-m", "a", "--auth-file", "users"}}.load(t)
	var text strings.Builder
	require.NoError(t, c.Write(&text, true))
	require.Contains(t, text.String(), "auth-file: users #")
	require.NotContains(t, text.String(), "hidden")
	require.NotContains(t, text.String(), "anna")
}
