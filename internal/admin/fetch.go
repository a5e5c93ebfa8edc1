package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// NoPoints, passed to Fetch as after, requests everything except points: no point has such a high number.
const NoPoints int64 = 1e12

// fetchTimeout bounds the time that a running middleware takes to answer.
const fetchTimeout = 10 * time.Second

// BaseURL returns the URL of the admin server that text gives as a URL or as "host:port".
func BaseURL(text string) (string, error) {
	base := text
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("%q is not an admin address: want host:port, or a URL such as http://127.0.0.1:9150",
			text)
	}
	return strings.TrimSuffix(base, "/"), nil
}

// Fetch gets the report of the admin server at address, which BaseURL must accept, with the points after the point with
// number after. A server that does not answer in time is an error.
func Fetch(ctx context.Context, address string, after int64) (*Report, error) {
	path := fmt.Sprintf("/api/stats?after=%d", after)
	base, response, err := do(ctx, http.MethodGet, address, path, nil, fetchTimeout)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", base, response.Status)
	}
	report := &Report{}
	if err := json.NewDecoder(response.Body).Decode(report); err != nil || report.Model == nil {
		return nil, fmt.Errorf("%s does not answer as mcmw's admin server does", base)
	}
	return report, nil
}

// do sends a request to the admin server at address, whose URL it also returns. timeout bounds the answer, with its
// body.
func do(ctx context.Context, method, address, path string, body io.Reader, timeout time.Duration) (base string,
	response *http.Response, err error,
) {
	if base, err = BaseURL(address); err != nil {
		return "", nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, base+path, body)
	if err != nil {
		return "", nil, err
	}
	client := http.Client{Timeout: timeout}
	if response, err = client.Do(request); err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the outer error repeats the address
		}
		return "", nil, fmt.Errorf("%s: %w", base, err)
	}
	return base, response, nil
}
