package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	checkPath    = "/api/check"
	checkTimeout = 30 * time.Second // for the lookups of names, and for a change of the configuration that is under way
	maxCheck     = 4 << 20          // of a configuration file, bytes
)

// Judgement is what a reload of a configuration file would say.
type Judgement struct {
	// Changes are the options that would change, a line for each.
	Changes []string `json:"changes"`
	// Problems are why the reload would be refused; none: it would be applied.
	Problems []string `json:"problems"`
	// Later: it would be tried again, and be applied when the change named in Problems has ended.
	Later bool `json:"later"`
}

// serveCheck answers with the judgement of the configuration file in the body. It serves only clients on this machine,
// because such a file names other files and hosts, and the answer tells whether they exist.
func (s *Server) serveCheck(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		http.Error(w,
			"a configuration is checked only for clients on mcmw's own machine, or in its own pod, at 127.0.0.1",
			http.StatusForbidden)
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCheck))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	judgement := Judgement{Changes: []string{}, Problems: []string{}}
	changes, later, err := s.options.Check(ctx, text)
	judgement.Changes = append(judgement.Changes, changes...)
	if judgement.Later = later; err != nil {
		judgement.Problems = strings.Split(err.Error(), "\n")
	}
	answerJSON(w, judgement)
}

// Check asks the admin server at address, which BaseURL must accept, what a reload of a configuration file with this
// text would say.
func Check(ctx context.Context, address string, text []byte) (*Judgement, error) {
	base, response, err := do(ctx, http.MethodPost, address, checkPath, bytes.NewReader(text),
		checkTimeout+fetchTimeout)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusForbidden {
		why, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("%s: %s", base, strings.TrimSpace(string(why)))
	}
	j := &Judgement{}
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(j) != nil || j.Problems == nil {
		return nil, fmt.Errorf("%s does not answer as mcmw's admin server does (%s)", base, response.Status)
	}
	return j, nil
}
