// Package admin is the middleware's HTTP server for operators: health, metrics, profiles and a live page.
//
//	/                 the live page, drawn in the browser from /api/stats
//	/livez            200 as long as the process answers
//	/readyz           200 while clients are served, else 503
//	/metrics          metrics for Prometheus, see table
//	/api/stats        the last two minutes, one point per second, see Report
//	/api/hot-keys     the keys that are requested most
//	/api/routes       all routes, see Route
//	/debug/histogram  exact counts of times in linear steps, see Server.serveHistogram
//	/debug/pprof/     Go profiles, only if the admin address is a loopback address
//
// The statistics come from Snapshots of one stats.Registry. Nothing here is on a request's path.
package admin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mcmw/internal/hotkeys"
	"mcmw/internal/stats"
)

const (
	tick            = time.Second      // between the points of the live page
	readTimeout     = 10 * time.Second // for a whole request
	writeTimeout    = 2 * time.Minute  // for a whole reply; a CPU profile takes as long as requested
	idleTimeout     = 2 * time.Minute  // between requests of one connection
	shutdownTimeout = time.Second      // for replies under way when Serve ends
	maxHeaderBytes  = 16 << 10
)

// Options are what a Server needs.
type Options struct {
	// Addr is the address to listen on, "host:port" (port 0: any free one).
	Addr string
	// Listener is an already bound listener, as Starting.Stop returns it; nil means that Listen binds Addr.
	Listener net.Listener
	// Control counts configuration changes; nil: there are no such metrics.
	Control *stats.Control
	// Registry is the source of the statistics.
	Registry *stats.Registry
	// Memcached requests the servers' own statistics, until ctx ends, and returns them by server name; nil: there are
	// none. Only one goroutine at a time calls it.
	Memcached func(ctx context.Context) map[string]stats.Memcached
	// HotKeys returns the n keys that are requested most; nil: there are none. It is called from any goroutine.
	HotKeys func(n int) hotkeys.Report
	// Check returns what a reload of a configuration file with this text would say, as control.Control.Check; nil:
	// there is no file. It is called from any goroutine.
	Check func(ctx context.Context, text []byte) (changes []string, later bool, err error)
	// Ready reports whether clients are served; nil means always. It is called from any goroutine.
	Ready func() bool
	// Version is the program's version.
	Version string
	// Log receives messages for operators; nil discards them.
	Log *slog.Logger
}

// Server is the admin HTTP server.
type Server struct {
	options   Options
	history   *history
	snapshots snapshots
	memcached *asked
	started   time.Time
	listener  net.Listener // set by Listen
}

func always() bool { return true }

// New returns a Server that does not listen yet.
func New(o Options) *Server {
	if o.Ready == nil {
		o.Ready = always
	}
	if o.HotKeys == nil {
		o.HotKeys = func(int) hotkeys.Report { return hotkeys.Report{Keys: []hotkeys.Key{}} }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	now := time.Now()
	return &Server{
		options: o, started: now, history: newHistory(o.Registry.Snapshot()),
		memcached: &asked{ask: o.Memcached, every: askEvery},
		snapshots: snapshots{start: strconv.FormatInt(now.UnixMilli(), 36)},
	}
}

// Listen binds the address.
func (s *Server) Listen() error {
	s.listener = s.options.Listener
	if s.listener != nil {
		return nil
	}
	var err error
	s.listener, err = listen(s.options.Addr)
	return err
}

// Addr returns the address that Listen has bound.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers requests until ctx is done, and then returns nil. Meanwhile it adds a point to the history every
// second. Listen must have succeeded.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:        s.handler(),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(s.options.Log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1) // the goroutine that serves -> Serve; exactly one value
	go func() { failed <- server.Serve(s.listener) }()

	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.history.add(now, s.options.Registry.Snapshot())
		case err := <-failed:
			return fmt.Errorf("admin server on %v: %w", s.Addr(), err)
		case <-ctx.Done():
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			if err := server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
				server.Close()
			}
			<-failed
			return nil
		}
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", servePage)
	mux.HandleFunc("GET /livez", health(always, ""))
	mux.HandleFunc("GET /readyz", health(s.options.Ready,
		"not ready: either the middleware waits for memcached servers, which its log names, or it is shutting down"))
	mux.HandleFunc("GET /api/stats", s.serveStats)
	mux.HandleFunc("GET /api/hot-keys", s.serveHotKeys)
	mux.HandleFunc("GET /api/prefixes", s.servePrefixes)
	mux.HandleFunc("GET /api/routes", s.serveRoutes)
	if s.options.Check != nil {
		mux.HandleFunc("POST "+checkPath, s.serveCheck)
	}
	mux.HandleFunc("GET /debug/histogram", s.serveHistogram)

	metrics := prometheus.NewRegistry()
	metrics.MustRegister(
		newCollector(s.options.Registry, s.options.Version),
		newTable(s.history.report, modelMetrics),
		newTable(s.memcached.get, memcachedMetrics),
		newTable(s.options.Registry.Usage().Snapshot, usageMetrics),
		newTable(func() hotkeys.Report { return s.options.HotKeys(0) }, hotKeysMetrics),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if s.options.Control != nil {
		metrics.MustRegister(newTable(s.options.Control.Snapshot, controlMetrics))
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(s.options.Log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.HTTPErrorOnError,
	}))

	if a, ok := s.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	} else {
		mux.HandleFunc("GET /debug/pprof/", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w,
				"profiles are served only when the admin address is a loopback address, such as 127.0.0.1:9150",
				http.StatusForbidden)
		})
	}
	return ownHost(s.Addr(), s.options.Addr, mux)
}

// answerJSON answers with v. An error means that the client is gone.
func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v)
}

// health answers 200 while ok returns true, else 503 with the reason.
func health(ok func() bool, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if !ok() {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "ok")
	}
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed chart.js
	chartJS string
	//go:embed page.js
	pageJS string

	// page is the complete live page. It loads only /api/stats.
	page = []byte(strings.NewReplacer("/*STYLE*/", pageCSS, "/*SCRIPT*/", chartJS+pageJS).Replace(pageHTML))
)

// pagePolicy lets a browser run only scripts in the page itself, and connect only to this server.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(page) // an error means that the browser is gone
}

// ownHost passes requests on to next. If the admin server listens on loopback, it passes only requests under a name of
// this machine: localhost, a loopback address, or the host in addr, the configured address. It refuses others, because
// a foreign page whose name is made to resolve to 127.0.0.1 (DNS rebinding) could read the statistics with its
// visitor's browser. A server on any other address accepts every name. Requests without a Host are accepted: they do
// not come from a browser.
func ownHost(bound net.Addr, addr string, next http.Handler) http.Handler {
	if a, ok := bound.(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return next
	}
	own, _, _ := net.SplitHostPort(addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		ip := net.ParseIP(host)
		if host == "" || strings.EqualFold(host, "localhost") || (own != "" && strings.EqualFold(host, own)) ||
			(ip != nil && ip.IsLoopback()) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w,
			"the admin server listens on loopback and answers only to localhost, 127.0.0.1 and [::1]; to use another "+
				"name, listen on another address",
			http.StatusForbidden)
	})
}
