package secret

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// ServerFiles are the PEM files of a TLS server; the zero value means no TLS.
type ServerFiles struct {
	// Cert is the certificate chain that the server presents, Key its private key.
	Cert, Key string
	// ClientCA, if not "", requires clients to present a certificate signed by one of these.
	ClientCA string
}

// ClientFiles are the PEM files of a TLS client.
type ClientFiles struct {
	// CA are the authorities trusted to sign servers' certificates; "" means the system's.
	CA string
	// Cert and Key are presented to a server that asks for a client certificate; both may be "".
	Cert, Key string
	// Name is the name that a server's certificate must have; "" means the host that is dialled.
	Name string
}

// ServerTLS returns a configuration that uses the files' current contents for each handshake. The error is a
// *FileError.
func ServerTLS(files ServerFiles, log *slog.Logger) (*tls.Config, error) {
	f, err := followTLS("certificate shown to clients", []string{files.Cert, files.Key, files.ClientCA}, files.Cert,
		files.Key, files.ClientCA, log, func(c *tls.Config, authorities *x509.CertPool) {
			// A resumed session would bypass the check of a certificate that is no longer accepted.
			c.SessionTicketsDisabled = true
			if c.ClientCAs = authorities; authorities != nil {
				c.ClientAuth = tls.RequireAndVerifyClientCert
			}
		})
	if err != nil {
		return nil, err
	}
	c := f.get().Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.get(), nil }
	return c, nil
}

// ClientTLS returns a function that returns the configuration of a connection to host, according to the files' current
// contents. The error is a *FileError.
func ClientTLS(files ClientFiles, log *slog.Logger) (func(host string) *tls.Config, error) {
	f, err := followTLS("certificates for connections to servers", []string{files.CA, files.Cert, files.Key},
		files.Cert, files.Key, files.CA, log,
		func(c *tls.Config, authorities *x509.CertPool) { c.RootCAs = authorities })
	if err != nil {
		return nil, err
	}
	return func(host string) *tls.Config {
		c := f.get().Clone()
		c.ServerName = cmp.Or(files.Name, host)
		return c
	}, nil
}

// followTLS makes a configuration from a certificate with its key, and authorities, unless these paths are "". paths
// are the same in the order of the log. complete uses the authorities, nil if there are none.
func followTLS(what string, paths []string, cert, key, ca string, log *slog.Logger,
	complete func(c *tls.Config, authorities *x509.CertPool),
) (*followed[tls.Config], error) {
	given := func(paths ...string) []string {
		return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
	}
	return follow(what, given(paths...), given(key), log, func(contents map[string][]byte) (c *tls.Config, err error) {
		// Records have their full size from the start, because memcached and its clients wait for whole messages, not
		// for their first bytes.
		c = &tls.Config{MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true}
		if cert != "" {
			pair, err := keyPair(cert, key, contents[cert], contents[key])
			if err != nil {
				return nil, err
			}
			c.Certificates = []tls.Certificate{pair}
		}
		var authorities *x509.CertPool
		if ca != "" {
			if authorities, err = pool(ca, contents[ca]); err != nil {
				return nil, err
			}
		}
		complete(c, authorities)
		return c, nil
	})
}

// keyPair parses a certificate chain and its key.
func keyPair(certPath, keyPath string, cert, key []byte) (tls.Certificate, error) {
	if _, err := certificates(cert); err != nil {
		return tls.Certificate{}, &FileError{certPath, err}
	}
	if !bytes.Contains(key, []byte("PRIVATE KEY-----")) {
		return tls.Certificate{}, &FileError{keyPath, errors.New("holds no private key in PEM form")}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, &FileError{keyPath, fmt.Errorf("is not the key of %s: %w", certPath, err)}
	}
	return pair, nil
}

func pool(path string, contents []byte) (*x509.CertPool, error) {
	all, err := certificates(contents)
	if err != nil {
		return nil, &FileError{path, err}
	}
	p := x509.NewCertPool()
	for _, c := range all {
		p.AddCert(c)
	}
	return p, nil
}

// certificates returns the certificates in contents. It is an error if there are none.
func certificates(contents []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(contents); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	if all == nil {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return all, nil
}
