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

// base returns the common configuration of both sides. Records have their full size from the start, because memcached
// and its clients wait for whole messages, not for their first bytes.
func base() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true}
}

// ServerTLS returns a configuration that uses the files' current contents for each handshake. The error is a
// *FileError.
func ServerTLS(files ServerFiles, log *slog.Logger) (*tls.Config, error) {
	paths := []string{files.Cert, files.Key}
	if files.ClientCA != "" {
		paths = append(paths, files.ClientCA)
	}
	f, err := follow("certificate shown to clients", paths, []string{files.Key}, log,
		func(contents [][]byte) (*tls.Config, error) {
			c := base()
			// A resumed session would bypass the check of a certificate that is no longer accepted.
			c.SessionTicketsDisabled = true
			pair, err := keyPair(files.Cert, files.Key, contents[0], contents[1])
			if err != nil {
				return nil, err
			}
			c.Certificates = []tls.Certificate{pair}
			if files.ClientCA != "" {
				c.ClientAuth = tls.RequireAndVerifyClientCert
				if c.ClientCAs, err = pool(files.ClientCA, contents[2]); err != nil {
					return nil, err
				}
			}
			return c, nil
		})
	if err != nil {
		return nil, err
	}
	c := base()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.get(), nil }
	return c, nil
}

// ClientTLS returns a function that returns the configuration of a connection to host, according to the files' current
// contents. The error is a *FileError.
func ClientTLS(files ClientFiles, log *slog.Logger) (func(host string) *tls.Config, error) {
	var paths, private []string
	if files.CA != "" {
		paths = append(paths, files.CA)
	}
	if files.Cert != "" {
		paths = append(paths, files.Cert, files.Key)
		private = append(private, files.Key)
	}
	f, err := follow("certificates for connections to servers", paths, private, log,
		func(contents [][]byte) (*tls.Config, error) {
			c := base()
			var err error
			if files.CA != "" {
				if c.RootCAs, err = pool(files.CA, contents[0]); err != nil {
					return nil, err
				}
				contents = contents[1:]
			}
			if files.Cert != "" {
				pair, err := keyPair(files.Cert, files.Key, contents[0], contents[1])
				if err != nil {
					return nil, err
				}
				c.Certificates = []tls.Certificate{pair}
			}
			return c, nil
		})
	if err != nil {
		return nil, err
	}
	return func(host string) *tls.Config {
		c := f.get().Clone()
		c.ServerName = cmp.Or(files.Name, host)
		return c
	}, nil
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
