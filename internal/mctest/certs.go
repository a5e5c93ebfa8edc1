package mctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority that lives as long as a test.
type CA struct {
	// File is the file of the authority's own certificate, in PEM form.
	File string

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA returns a new authority. Its files are removed at the end of the test.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t: t, key: newKey(t)}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "mctest authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der := ca.sign(template, template, ca.key)
	var err error
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatalf("authority: %v", err)
	}
	ca.File = filepath.Join(t.TempDir(), "ca.pem")
	ca.write(ca.File, "CERTIFICATE", der)
	return ca
}

// Issue writes a certificate for loopback addresses and names, valid for servers and clients, and its key to files, and
// returns their paths.
func (ca *CA) Issue(names ...string) (cert, key string) {
	ca.t.Helper()
	dir := ca.t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca.IssueTo(cert, key, names...)
	return cert, key
}

// IssueTo is Issue with paths of the caller's choice. It replaces existing files.
func (ca *CA) IssueTo(cert, key string, names ...string) {
	ca.t.Helper()
	secret := newKey(ca.t)
	common := "mctest"
	if len(names) > 0 {
		common = names[0]
	}
	der := ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: common}, DNSNames: append([]string{"localhost"}, names...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca.cert, secret)
	ca.write(cert, "CERTIFICATE", der)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		ca.t.Fatalf("authority: %v", err)
	}
	ca.write(key, "PRIVATE KEY", pkcs8)
}

// Client returns the configuration of a client that trusts the authority's certificates. Unless cert is "", the client
// presents the certificate in the files cert and key.
func (ca *CA) Client(cert, key string) *tls.Config {
	ca.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	c.RootCAs.AddCert(ca.cert)
	if cert != "" {
		c.Certificates = []tls.Certificate{ca.load(cert, key)}
	}
	return c
}

// Server returns the configuration of a server that presents a new certificate.
func (ca *CA) Server() *tls.Config {
	ca.t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{ca.load(ca.Issue())}}
}

func (ca *CA) load(cert, key string) tls.Certificate {
	ca.t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		ca.t.Fatalf("authority: %v", err)
	}
	return pair
}

// sign completes template, for the key of, and signs it as parent.
func (ca *CA) sign(template, parent *x509.Certificate, of *ecdsa.PrivateKey) []byte {
	ca.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		ca.t.Fatalf("authority: %v", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, of.Public(), ca.key)
	if err != nil {
		ca.t.Fatalf("authority: %v", err)
	}
	return der
}

func (ca *CA) write(path, kind string, der []byte) {
	ca.t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.t.Fatalf("authority: %v", err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("authority: %v", err)
	}
	return key
}
