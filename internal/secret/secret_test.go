package secret

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// shown returns the serial number of the certificate that a server with config presents.
func shown(t *testing.T, config *tls.Config) string {
	t.Helper()
	c, err := config.GetConfigForClient(nil)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
	require.NoError(t, err)
	return leaf.SerialNumber.String()
}

// pass waits, in a bubble's time, until the files may be checked again.
func pass() { time.Sleep(checkEvery) }

func TestACertificateIsReadAgainWhenItsFilesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ca := mctest.NewCA(t)
		cert, key := ca.Issue()
		config, err := ServerTLS(ServerFiles{Cert: cert, Key: key}, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		first := shown(t, config)
		pass()
		require.Equal(t, first, shown(t, config))
		require.Empty(t, log.String())

		other, otherKey := ca.Issue()
		require.NoError(t, os.WriteFile(cert, []byte(read(t, other)), 0o600))
		pass()
		require.Equal(t, first, shown(t, config), "certificate and key do not fit")
		require.Equal(t, 1, strings.Count(log.String(), "not accepted"))
		pass()
		require.Equal(t, first, shown(t, config))
		require.Equal(t, 1, strings.Count(log.String(), "not accepted"), "the same fault is logged once")
		require.NotContains(t, log.String(), "-----")

		require.NoError(t, os.WriteFile(key, []byte(read(t, otherKey)), 0o600))
		require.Equal(t, first, shown(t, config), "not looked at again within the second")
		pass()
		second := shown(t, config)
		require.NotEqual(t, first, second)

		require.NoError(t, os.Remove(cert))
		pass()
		require.Equal(t, second, shown(t, config))
		require.Equal(t, 2, strings.Count(log.String(), "not accepted"))
	})
}

// Kubernetes renews a secret by pointing a symbolic link to another directory.
func TestACertificateBehindASymbolicLinkIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, dir := mctest.NewCA(t), t.TempDir()
		for _, version := range []string{"1", "2"} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
			ca.IssueTo(filepath.Join(dir, version, "tls.crt"), filepath.Join(dir, version, "tls.key"))
		}
		data := filepath.Join(dir, "data")
		require.NoError(t, os.Symlink("1", data))
		for _, name := range []string{"tls.crt", "tls.key"} {
			require.NoError(t, os.Symlink(filepath.Join("data", name), filepath.Join(dir, name)))
		}
		config, err := ServerTLS(ServerFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")},
			slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		first := shown(t, config)
		require.NoError(t, os.Symlink("2", data+".new"))
		require.NoError(t, os.Rename(data+".new", data))
		pass()
		require.NotEqual(t, first, shown(t, config))
	})
}

func TestTheConfigurationForServersFollowsTheFilesAndTheHost(t *testing.T) {
	ca := mctest.NewCA(t)
	cert, key := ca.Issue()
	get, err := ClientTLS(ClientFiles{CA: ca.File, Cert: cert, Key: key}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	c := get("cache1")
	assert.Equal(t, "cache1", c.ServerName)
	assert.NotNil(t, c.RootCAs)
	assert.Len(t, c.Certificates, 1)
	assert.EqualValues(t, tls.VersionTLS12, c.MinVersion)
	get, err = ClientTLS(ClientFiles{Name: "memcached"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	c = get("cache1")
	assert.Equal(t, "memcached", c.ServerName)
	assert.Nil(t, c.RootCAs, "the system's")
}

func TestErrorsNameTheBadFileAndTheReason(t *testing.T) {
	ca := mctest.NewCA(t)
	cert, key := ca.Issue()
	_, foreign := ca.Issue()
	missing := filepath.Join(t.TempDir(), "missing")
	empty := write(t, "")
	notPEM := write(t, "certificate\n")
	broken := write(t, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	for name, tc := range map[string]struct {
		files    ServerFiles
		at, text string
	}{
		"no certificate": {ServerFiles{Cert: missing, Key: key}, missing, "no such file or directory"},
		"no key":         {ServerFiles{Cert: cert, Key: missing}, missing, "no such file or directory"},
		"a directory": {
			ServerFiles{Cert: filepath.Dir(cert), Key: key},
			filepath.Dir(cert),
			"is a directory",
		},
		"an empty file":           {ServerFiles{Cert: empty, Key: key}, empty, "holds no certificate in PEM form"},
		"text":                    {ServerFiles{Cert: notPEM, Key: key}, notPEM, "holds no certificate in PEM form"},
		"a key for a certificate": {ServerFiles{Cert: key, Key: key}, key, "holds no certificate in PEM form"},
		"a broken certificate": {
			ServerFiles{Cert: broken, Key: key},
			broken,
			"certificate 1: x509: malformed certificate",
		},
		"a certificate for a key": {ServerFiles{Cert: cert, Key: cert}, cert, "holds no private key in PEM form"},
		"a key of another": {
			ServerFiles{Cert: cert, Key: foreign},
			foreign,
			"is not the key of " + cert + ": tls: private key does not match public key",
		},
		"an authority that is not": {
			ServerFiles{Cert: cert, Key: key, ClientCA: key},
			key,
			"holds no certificate in PEM form",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ServerTLS(tc.files, slog.New(slog.DiscardHandler))
			var at *FileError
			require.ErrorAs(t, err, &at)
			assert.Equal(t, tc.at, at.Path)
			assert.Equal(t, tc.text, at.Err.Error())
		})
	}
	_, err := ClientTLS(ClientFiles{CA: notPEM}, slog.New(slog.DiscardHandler))
	require.EqualError(t, err, notPEM+": holds no certificate in PEM form")
	_, err = ClientTLS(ClientFiles{CA: ca.File, Cert: cert, Key: foreign}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, foreign+": is not the key of "+cert)
}

func TestPrefixesAfterThePasswordBindAUser(t *testing.T) {
	longest := strings.Repeat("u", 100) + ":" + strings.Repeat("p", 153) + " " + strings.Repeat("x", 250)
	login, err := Users(write(t, "anna:a:b session: cart,\nanna:all\n"+longest), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	anna := login([]byte("anna"), []byte("a:b"))
	require.Equal(t, &User{"anna", []string{"session:", "cart,"}}, anna)
	for key, may := range map[string]bool{
		"session:": true, "session:1": true, "cart,1": true, "session": false, "cart:1": false, "": false,
		"xcart,": false,
	} {
		assert.Equal(t, may, anna.May([]byte(key)), key)
	}
	require.True(t, login([]byte("anna"), []byte("all")).May([]byte("any")))
	require.Nil(t, login([]byte("anna"), []byte("a:b session: cart,")))
}

func TestANameIsAllowedOnlyWithItsOwnPassword(t *testing.T) {
	login, err := Users(write(t, "anna:secret\r\nbert:a:b\nc:d"), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for given, want := range map[[2]string]bool{
		{"anna", "secret"}:  true,
		{"bert", "a:b"}:     true,
		{"c", "d"}:          true,
		{"anna", "a:b"}:     false,
		{"anna", "secre"}:   false,
		{"anna", "secrets"}: false,
		{"annas", "ecret"}:  false,
		{"", ""}:            false,
	} {
		assert.Equal(t, want, login([]byte(given[0]), []byte(given[1])) != nil, "%q", given)
	}
}

func TestPasswordsAreReadAgainWhenTheFileChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		path := write(t, "anna:old\n")
		logger := slog.New(slog.NewTextHandler(&log, nil))
		users, err := Users(path, logger)
		require.NoError(t, err)
		login, err := Login(path, logger)
		require.NoError(t, err)
		for _, text := range []string{"anna:new\n", "anna\n", "anna:newer\n"} {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			pass()
			_, password, ok := strings.Cut(strings.TrimSpace(text), ":")
			if !ok {
				password = "new" // the last accepted one
			}
			assert.NotNil(t, users([]byte("anna"), []byte(password)), text)
			assert.Nil(t, users([]byte("anna"), []byte("old")))
			_, given := login()
			assert.Equal(t, password, given)
		}
		assert.Contains(t, log.String(), "line 1 is not of the form user:password")
		for _, secret := range []string{"anna", "old", "new"} {
			assert.NotContains(t, strings.ReplaceAll(log.String(), path, ""), secret)
		}
	})
}

func TestAChangedSecretFileThatEverybodyCanReadCausesAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		ca, passwords := mctest.NewCA(t), write(t, "anna:old\n")
		cert, key := ca.Issue()
		for _, path := range []string{ca.File, cert} {
			require.NoError(t, os.Chmod(path, 0o644)) // no secrets
		}
		users, err := Users(passwords, logger)
		require.NoError(t, err)
		login, err := Login(passwords, logger)
		require.NoError(t, err)
		server, err := ServerTLS(ServerFiles{Cert: cert, Key: key, ClientCA: ca.File}, logger)
		require.NoError(t, err)
		client, err := ClientTLS(ClientFiles{CA: ca.File, Cert: cert, Key: key}, logger)
		require.NoError(t, err)
		// renew changes the contents of all files and returns the warnings, once.
		renew := func(mode os.FileMode) (warnings []string) {
			log.Reset()
			pass()
			require.NoError(t, os.WriteFile(passwords, fmt.Appendf(nil, "anna:%o\n", mode), 0o600))
			ca.IssueTo(cert, key)
			for _, path := range []string{passwords, key} {
				require.NoError(t, os.Chmod(path, mode))
			}
			for range 2 {
				users(nil, nil)
				login()
				shown(t, server)
				client("")
				pass()
			}
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "level=WARN") {
					warnings = append(warnings, line)
				}
			}
			return warnings
		}
		assert.Empty(t, renew(0o640))
		warnings := renew(0o644)
		require.Len(t, warnings, 4)
		for i, path := range []string{passwords, passwords, key, key} {
			assert.Contains(t, warnings[i], path+" holds secrets and has mode 0644")
		}
		assert.Empty(t, renew(0o600))
	})
}

func TestErrorsOfPasswordFilesDoNotQuoteThem(t *testing.T) {
	for text, want := range map[string]string{
		"":             "is empty; accepted: lines user:password",
		"hidden\n":     "line 1 is not of the form user:password",
		"a:b\n\nc:d\n": "line 2 is not of the form user:password",
		":hidden\n":    "line 1 has no name before the colon",
		"hidden:\r\n":  "line 1 has no password after the colon",
		"a:hidden \n": "line 1 has a blank after which no prefix follows; accepted: user:password, or " +
			"user:password PREFIX [PREFIX ...]",
		"a:hidden b:  c:\n": "line 1 has a blank after which no prefix follows; accepted: user:password, or " +
			"user:password PREFIX [PREFIX ...]",
		"a:hidden " + strings.Repeat("x", 251): "line 1 has a prefix of more than 250 bytes; no key is as long",
		"a:b\nc:d\na:b c:\n":                   "line 3 has the name and the password of line 1, but other prefixes",
		"hid den:a\n": "line 1 contains a blank, a carriage return or a zero byte, which no " +
			"client can send",
		"a:" + strings.Repeat("x", 254) + "\n": "line 1 has 257 bytes; accepted: up to 255, as in memcached",
		"a:b\nc:d\n" + "e:" + "hid\x00den" +
			"": "line 3 contains a blank, a carriage return or a zero byte, which no client can send",
	} {
		path := write(t, text)
		_, err := Users(path, slog.New(slog.DiscardHandler))
		require.EqualError(t, err, path+": "+want)
	}
	path := write(t, "a:b\nc:d\n")
	_, err := Login(path, slog.New(slog.DiscardHandler))
	require.EqualError(t, err, path+": has 2 lines; accepted: one line user:password")
	path = write(t, "a:b c:\n")
	_, err = Login(path, slog.New(slog.DiscardHandler))
	require.EqualError(t, err, path+": has a blank in its line; accepted: one line user:password")
}

func TestManyGoroutinesMayCallGetWhileTheFileChanges(t *testing.T) {
	path := write(t, "user:1")
	f, err := follow("numbers", []string{path}, nil, slog.New(slog.DiscardHandler),
		func(contents map[string][]byte) (*string, error) {
			s := string(contents[path])
			return &s, nil
		})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				f.checked.Store(-int64(checkEvery))
				assert.True(t, strings.HasPrefix(*f.get(), "user:"))
				if i == 0 {
					next := filepath.Join(filepath.Dir(path), "next")
					assert.NoError(t, os.WriteFile(next, fmt.Appendf(nil, "user:%d", i), 0o600))
					assert.NoError(t, os.Rename(next, path))
				}
			}
		})
	}
	wg.Wait()
}
