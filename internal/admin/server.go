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
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mcmw/internal/hotkeys"
	"mcmw/internal/model"
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

// Options are what a Server shows.
type Options struct {
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
}

// Server is the admin HTTP server. Until Show it knows no middleware: /livez answers 200, and all other paths answer
// 503 with the reason.
type Server struct {
	addr     string // as configured
	log      *slog.Logger
	listener net.Listener
	server   *http.Server
	shown    atomic.Pointer[http.ServeMux]
	working  sync.WaitGroup
	ending   chan struct{} // closed by Close

	// Set by Show.
	options   Options
	history   *history
	snapshots snapshots
	memcached *asked
	started   time.Time
}

func always() bool { return true }

func never() bool { return false }

// Listen binds addr, "host:port" (port 0: any free one), and answers there that clients are not served yet for that
// reason, until Close. log receives messages for operators.
func Listen(addr, reason string, log *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("admin address %q: %w", addr, err)
	}
	s := &Server{addr: addr, log: log, listener: l, ending: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", health(always, ""))
	mux.HandleFunc("GET /", health(never, "not ready: "+reason))
	s.shown.Store(mux)
	s.server = &http.Server{
		Handler: ownHost(l.Addr(), addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.shown.Load().ServeHTTP(w, r)
		})),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.working.Go(func() {
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin server has ended; clients are still served", "error",
				fmt.Errorf("admin server on %v: %w", l.Addr(), err))
		}
	})
	return s, nil
}

// Show makes s show a middleware from now on, and add a point to the history every second. It must be called once.
func (s *Server) Show(o Options) {
	if o.Ready == nil {
		o.Ready = always
	}
	if o.HotKeys == nil {
		o.HotKeys = func(int) hotkeys.Report { return hotkeys.Report{Keys: []hotkeys.Key{}} }
	}
	s.options, s.started = o, time.Now()
	s.history, s.memcached = newHistory(o.Registry.Snapshot()), &asked{ask: o.Memcached, every: askEvery}
	s.snapshots.start = strconv.FormatInt(s.started.UnixMilli(), 36)
	s.shown.Store(s.handler())
	s.working.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				s.history.add(now, o.Registry.Snapshot())
			case <-s.ending:
				return
			}
		}
	})
}

// Addr returns the bound address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server, and returns when it has ended.
func (s *Server) Close() {
	close(s.ending)
	grace, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := s.server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		s.server.Close()
	}
	s.working.Wait()
}

func (s *Server) handler() *http.ServeMux {
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
		newTable(func() *model.Report { return s.history.now.Load().model }, modelMetrics),
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
		ErrorLog:      slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
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
	return mux
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
