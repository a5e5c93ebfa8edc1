package discover

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// serviceAccount is where a pod has the token of its service account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Cluster is how the API server of a Kubernetes is reached by a service account.
type Cluster struct {
	// URL is "https://host:port"; "": there is none.
	URL string
	// Dir has the files token, which is renewed from time to time, and ca.crt.
	Dir string
}

// PodCluster returns the Cluster that this process is in a pod of; none elsewhere.
func PodCluster() Cluster {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Cluster{}
	}
	return Cluster{URL: "https://" + net.JoinHostPort(host, port), Dir: serviceAccount}
}

func (c Cluster) read(name string) ([]byte, error) {
	if c.URL == "" {
		return nil, errors.New("this is no pod of a Kubernetes: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("the pod has no token of a service account (automountServiceAccountToken): %w", err)
	}
	return text, err
}

// client returns a client that trusts what is in ca.crt now.
func (c Cluster) client() (*http.Client, error) {
	authorities, err := c.read("ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s has no certificate", filepath.Join(c.Dir, "ca.crt"))
	}
	return &http.Client{Transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: apiTimeout}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   apiTimeout,
		ResponseHeaderTimeout: apiTimeout,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: apiTimeout},
	}}, nil
}

// service is a port of a service of Kubernetes.
type service struct{ port, protocol, name, namespace string }

// ParseService splits the name of a service's SRV records, "_port._protocol.service.namespace.svc", which the cluster's domain may follow; ok
// is false if it is not of this form.
func ParseService(name string) (s service, ok bool) {
	labels := strings.SplitN(canonical(name), ".", 6)
	if len(labels) < 5 || labels[4] != "svc" || !strings.HasPrefix(labels[0], "_") || !strings.HasPrefix(labels[1], "_") {
		return s, false
	}
	return service{labels[0][1:], labels[1][1:], labels[2], labels[3]}, true
}
