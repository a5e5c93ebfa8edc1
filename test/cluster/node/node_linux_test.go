package node

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAClusterHasANameThatCanBePartOfAPath(t *testing.T) {
	for _, name := range []string{"mcmw", "a", "two-2"} {
		_, err := New(name)
		assert.NoError(t, err, name)
	}
	for _, name := range []string{"", "..", "a/b", "Upper", "-x", "a b", "a23456789012345678901234567890123"} {
		_, err := New(name)
		assert.ErrorContains(t, err, "expected a lower-case letter", name)
	}
}

func TestACertificateIsValidForTheNamesAndAddressesItWasSignedFor(t *testing.T) {
	dir := t.TempDir()
	ca, err := newAuthority(dir)
	require.NoError(t, err)
	require.NoError(t, ca.sign("server", "kube-apiserver", "", "10.96.0.1", "kubernetes.default"))
	require.NoError(t, ca.tokens())
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(pem))
	for name, valid := range map[string]bool{
		"10.96.0.1": true, "kubernetes.default": true, "10.96.0.2": false,
		"kubernetes": false,
	} {
		_, err := cert.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
		assert.Equal(t, valid, err == nil, "%s: %v", name, err)
	}
	info, err := os.Stat(filepath.Join(dir, "server.key"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestEveryConfigurationIsFilledIn(t *testing.T) {
	c, err := New("test")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, c.writeFiles(dir))
	plugins, err := os.ReadFile(filepath.Join(dir, "cni", "pods.conflist"))
	require.NoError(t, err)
	require.True(t, json.Valid(plugins), "%s", plugins)
	kubelet, err := os.ReadFile(filepath.Join(dir, "kubelet.yaml"))
	require.NoError(t, err)
	assert.Contains(t, string(kubelet), "cgroupRoot: /mcmw-cluster-test\n")
	for _, name := range []string{
		"admin.kubeconfig", "containerd.toml", "coredns.yaml", "kube-proxy.yaml",
		"kubelet.yaml", "resolv.conf",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.NotContains(t, string(text), "{{", name)
	}
}

func TestACommandNeedsACluster(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	c, err := New("absent")
	require.NoError(t, err)
	assert.Zero(t, c.Pid())
	_, err = c.Command(t.Context(), "kubectl")
	assert.ErrorContains(t, err, "bring it up first")
	// A process with the recorded id that is not the recorded process.
	require.NoError(t, os.MkdirAll(c.Dir(), 0o755))
	require.NoError(t, os.WriteFile(c.ownerFile(), []byte("1 12345678901\n"), 0o644))
	assert.Zero(t, c.Pid())
}
