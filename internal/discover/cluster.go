package discover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// serviceAccount is the directory in a pod with the token of its service account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Cluster says how to reach the API server of a Kubernetes cluster with a service account.
type Cluster struct {
	// URL is "https://host:port"; "": there is no cluster.
	URL string
	// Dir is the directory with the files ca.crt and token, which is renewed from time to time.
	Dir string
}

// PodCluster returns the Cluster in which this process runs in a pod; the zero value if it does not.
func PodCluster() Cluster {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Cluster{}
	}
	return Cluster{URL: "https://" + net.JoinHostPort(host, port), Dir: serviceAccount}
}

func (c Cluster) read(name string) ([]byte, error) {
	if c.URL == "" {
		return nil,
			errors.New("mcmw does not run in a Kubernetes pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT " +
				"are not set")
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("the pod has no token of a service account; set automountServiceAccountToken to true: %w", err)
	}
	return text, err
}

// request sends a request to the API server, with a patch unless that is "", and returns the body of the answer. Each
// request has a connection of its own, which ends with the body, and trusts the certificates that are in ca.crt now.
func (c Cluster) request(ctx context.Context, method, path, patch string) (io.ReadCloser, error) {
	authorities, err := c.read("ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s contains no certificate", filepath.Join(c.Dir, "ca.crt"))
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(patch))
	if err != nil {
		return nil, err
	}
	token, err := c.read("token")
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if patch != "" {
		request.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives:     true,
		DialContext:           (&net.Dialer{Timeout: apiTimeout}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   apiTimeout,
		ResponseHeaderTimeout: apiTimeout,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: apiTimeout},
	}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, refusal(text, response.StatusCode)
	}
	return response.Body, nil
}

// get decodes the object at path into the value that object points to.
func (c Cluster) get(ctx context.Context, path string, object any) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	body, err := c.request(ctx, http.MethodGet, path, "")
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(object)
}

// service is a port of a Kubernetes Service.
type service struct{ port, protocol, name, namespace string }

// ParseService splits the name of a Service's SRV records, "_port._protocol.service.namespace.svc", optionally followed
// by the cluster's domain. ok is false if name does not have this form.
func ParseService(name string) (s service, ok bool) {
	labels := strings.SplitN(canonical(name), ".", 6)
	if len(labels) < 5 || labels[4] != "svc" || !strings.HasPrefix(labels[0], "_") ||
		!strings.HasPrefix(labels[1], "_") {
		return s, false
	}
	return service{labels[0][1:], labels[1][1:], labels[2], labels[3]}, true
}
