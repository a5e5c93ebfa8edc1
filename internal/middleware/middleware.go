package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/keylock"
	"mcmw/internal/netstage"
	"mcmw/internal/queue"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/sweep"
)

// Middleware is one middleware. New makes it, Listen binds its addresses, Run serves; each is called once, in this
// order. Apply may be called at any time.
type Middleware struct {
	// Static after construction.
	stage    *netstage.Stage
	registry *stats.Registry
	entrance *queue.Entrance
	locks    *keylock.Table
	hot      *hotkeys.Keys // nil: hot keys are not counted
	begun    chan struct{} // closed when workers take batches: from now on the entrance may be used
	ready    chan struct{} // closed when Options.Ready is met for the first time

	// changes counts the changes of the servers' states.
	changes atomic.Uint32
	swept   stats.Sweeps
	// current is the core that serves now; replaced by Apply.
	current    atomic.Pointer[core]
	accepting  atomic.Bool    // clients should connect
	listeners  []listener     // owned by Listen, then by Run
	background sync.WaitGroup // goroutines that end with work

	// driving: whoever changes what is under way -> drive; capacity 1; never closed.
	driving chan struct{}
	// ahead is added to the machine's clock to get the clock that migrations follow, ns. Only tests set it.
	ahead atomic.Int64

	// applying guards the fields below, and is held for as long as Apply takes.
	applying   sync.Mutex
	options    Options
	access     access
	work       context.Context // context of the serving goroutines; nil before Run has reached the servers
	stopProber map[*backend.Server]context.CancelFunc
	stopping   bool
	poolStates []*poolState // by pool
	routing    *rerouting   // nil: no change of routes is under way
	recipients []*recipient
	migrating  []*migrating
	// busyUntil is, by pool, until when other middlewares may use it for a migration that was dropped here.
	busyUntil map[string]time.Time
}

// DefaultWorkers is the default number of workers: one per processor, and at least two, so that one plans and answers
// while another waits for its servers.
func DefaultWorkers() int { return max(2, runtime.GOMAXPROCS(0)) }

// withDefaults returns o without zero fields, with its servers in Pools.
func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(o.Workers, DefaultWorkers())
	o.Depth = cmp.Or(o.Depth, DefaultDepth)
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	o.ServerOptions = withServerDefaults(o.ServerOptions)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Large.Item = cmp.Or(o.Large.Item, DefaultItemSize)
	if len(o.Pools) == 0 {
		o.Pools = []PoolOptions{o.OnlyPool()}
		o.Servers = nil
	}
	o.EachPool(func(p *PoolOptions) {
		p.Timeout = cmp.Or(p.Timeout, o.Timeout)
		p.Large.Item = cmp.Or(p.Large.Item, DefaultItemSize)
		p.ServerOptions = withServerDefaults(p.ServerOptions)
	})
	o.HotAge = cmp.Or(o.HotAge, DefaultHotAge)
	o.HotMemory = cmp.Or(o.HotMemory, DefaultHotMemory)
	o.StallAfter = cmp.Or(o.StallAfter, DefaultStallAfter)
	o.MaxOutput = cmp.Or(o.MaxOutput, DefaultMaxOutput)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, DefaultWriteTimeout)
	o.MinRate = cmp.Or(o.MinRate, DefaultMinRate)
	o.ClientMemory = cmp.Or(o.ClientMemory, DefaultClientMemory)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	o.SweepRate = cmp.Or(o.SweepRate, sweep.DefaultRate)
	o.Security.HandshakeTimeout = cmp.Or(o.Security.HandshakeTimeout, DefaultHandshakeTimeout)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Limits = o.Limits.WithDefaults()
	return o
}

func withServerDefaults(o backend.ServerOptions) backend.ServerOptions {
	o.FailureLimit = cmp.Or(o.FailureLimit, DefaultFailureLimit)
	o.MissedMemory = cmp.Or(o.MissedMemory, DefaultMissedMemory)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	return o
}

// validate returns an error for the first option that does not fit the others. Whoever makes the options keeps to the
// range of each.
func (o *Options) validate() error {
	if len(o.Servers) > 0 {
		return errors.New("both servers and pools are set; accepted: one of them, where each pool has servers of its " +
			"own")
	}
	refused := append(o.CheckPools(), o.Security.CheckOptions(o.Listen)...)
	if len(refused) == 0 && len(o.Shadows) > 0 {
		var pools []route.Pool
		for _, p := range o.all() {
			pools = append(pools, p.Pool)
		}
		_, err := route.NewPools(pools, o.Routes)
		return err
	}
	return errors.Join(refused...)
}

// New returns a middleware that is not yet connected to anything. It fails if the options are out of range.
func New(o Options) (*Middleware, error) {
	if len(o.Listen) == 0 {
		return nil, errors.New("no listen address given; accepted: at least one host:port or unix:/path")
	}
	return newMiddleware(o)
}

// newMiddleware is New for a middleware that may have no listen address: a shadow's.
func newMiddleware(o Options) (*Middleware, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	router, err := o.route()
	if err != nil {
		return nil, err
	}
	m := &Middleware{
		options: o, begun: make(chan struct{}), ready: make(chan struct{}),
		stopProber: map[*backend.Server]context.CancelFunc{},
		busyUntil:  map[string]time.Time{}, driving: make(chan struct{}, 1),
	}
	m.applyMigrations(&o)
	router = router.Migrate(m.moves(&o))
	m.locks = keylock.New()
	if m.access, err = o.access(); err != nil {
		return nil, err
	}
	m.poolStates = m.poolStatesFor(&o)
	for i, c := range o.Pools {
		m.poolStates[i].settled = placement{router.Pools()[i].Alone(), c.Options}
	}
	if o.HotKeys != hotkeys.Off {
		m.hot = hotkeys.New()
	}
	if o.HotKeys == hotkeys.Serve {
		m.hot.Served = hotkeys.NewValues(o.hotAge(), o.HotMemory)
	}
	if _, err = m.applyRecipients(context.Background(), &o); err != nil {
		return nil, err
	}
	servers, _, _ := m.serversFor(o, nil)
	c := m.newCore(o, router, servers)
	m.current.Store(c)
	m.registry = stats.New(m.statistics(c))
	m.entrance = queue.NewEntrance(c.lanes)
	clients := o.ClientOptions
	var refused int
	clients.MaxConnections, refused = o.maxClients(c)
	m.stage = netstage.New(netstage.Options{
		ClientOptions: clients, MaxRefused: refused, TLS: m.access.tls, HandshakeTimeout: o.Security.HandshakeTimeout,
		Login: m.access.login,
		Hot:   m.hot.Values(), Queue: m.entrance, Net: m.registry.Net(), Usage: m.registry.Usage(), Log: o.Log,
	})
	return m, nil
}

// Listen binds all listen addresses, or none; its error names the address that could not be bound. Clients are accepted
// once Run has tried to reach all servers.
func (m *Middleware) Listen() error {
	for _, addr := range m.options.Listen {
		address, secure := m.options.Security.secured(addr)
		l, err := listen(address)
		if err == nil {
			m.listeners = append(m.listeners, listener{l, secure})
			if network, path := backend.Network(address); network == "unix" && m.options.UnixMask != 0 {
				err = os.Chmod(path, m.options.UnixMask)
			}
		}
		if err != nil {
			m.closeListeners()
			return fmt.Errorf("listen on %s: %w", addr, err)
		}
	}
	return nil
}

// listener is a bound address, with or without TLS.
type listener struct {
	net.Listener
	secure bool
}

// listen binds addr. A unix socket without a listener is replaced; any other file at its path is left alone.
func listen(addr string) (net.Listener, error) {
	network, address := backend.Network(addr)
	l, err := net.Listen(network, address)
	if err == nil || network != "unix" || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if info, statErr := os.Lstat(address); statErr == nil && info.Mode().Type() != os.ModeSocket {
		return nil, errors.New("there is a file that is no socket; choose another path")
	}
	if c, dialErr := net.Dial(network, address); dialErr == nil {
		_ = c.Close()
		return nil, err
	} else if !errors.Is(dialErr, syscall.ECONNREFUSED) {
		return nil, err
	}
	if err := os.Remove(address); err != nil {
		return nil, err
	}
	return net.Listen(network, address)
}

func (m *Middleware) closeListeners() {
	for _, l := range m.listeners {
		_ = l.Close()
	}
}

// Addrs returns the bound addresses, in the order of Options.Listen.
func (m *Middleware) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(m.listeners))
	for i, l := range m.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Ready returns a channel that is closed when Options.Ready is met for the first time.
func (m *Middleware) Ready() <-chan struct{} { return m.ready }

// IsReady reports whether clients should connect: not before Ready, and not while draining. Later failures of servers
// don't change it, because all middlewares would become unready at the same time.
func (m *Middleware) IsReady() bool { return m.accepting.Load() }

// Stats returns the statistics, which may be read at any time.
func (m *Middleware) Stats() *stats.Registry { return m.registry }

// Run serves until ctx is done, then drains and returns nil. It returns when no goroutine of the middleware is left.
func (m *Middleware) Run(ctx context.Context) error {
	defer m.closeListeners()
	// The workers outlive ctx: requests in flight at its end are still answered.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer m.background.Wait()
	defer stopWork()
	if !m.begin(ctx, work) {
		return nil
	}
	close(m.begun)
	var accepting sync.WaitGroup
	for _, l := range m.listeners {
		accepting.Go(func() { m.stage.Serve(l, l.secure) })
	}
	if m.awaitReady(ctx) {
		m.accepting.Store(true)
		close(m.ready)
	}

	<-ctx.Done()
	m.accepting.Store(false)
	m.closeListeners()
	accepting.Wait()
	m.applying.Lock()
	m.stopping = true
	m.applying.Unlock()
	c := m.current.Load()
	c.options.Log.Info("draining", "connections", m.registry.Snapshot().Open(), "timeout", c.options.DrainTimeout)
	deadline := time.Now().Add(c.options.DrainTimeout)
	if cut := m.stage.Drain(c.options.DrainTimeout); cut > 0 {
		c.options.Log.Warn("client connections were closed with requests unanswered, because the drain timeout ended",
			"connections", cut)
	}
	m.endRecipients(deadline)
	c.stop()
	stopWork()
	m.background.Wait() // the probers wait for what was sent on connections that were given up
	for _, p := range m.current.Load().pools {
		p.endRecords(context.WithoutCancel(ctx), c.options.ConnectTimeout)
	}
	return nil
}

// begin starts the serving goroutines; they end when work is done. The end of ctx ends the waits for servers. It
// returns false, and has started nothing, if ctx ended before the servers were judged.
func (m *Middleware) begin(ctx, work context.Context) bool {
	m.applying.Lock()
	defer m.applying.Unlock()
	c := m.current.Load()
	each(c.pools, (*pool).requireVersions)
	reach(ctx, c.servers)
	c = m.catchUp(ctx, c)
	each(c.pools, func(p *pool) { p.decideWriters(ctx) })
	if ctx.Err() != nil {
		m.stopping = true
		return false
	}
	m.work = work
	for _, p := range c.pools {
		p.begin(m.routing != nil && m.routing.joined)
	}
	if c.unswept() {
		backend.Pause(work, aftermath)
	}
	for _, p := range c.pools {
		for _, s := range p.servers {
			m.startProber(p.poolState, s)
		}
	}
	for _, p := range c.pools {
		if p.records != nil {
			p.records.AwaitPlaced(ctx)
		}
	}
	m.cleanJoined()
	// A write that a client makes while a server is being flushed may be lost in the flush.
	clean := time.Now().Add(c.options.ConnectTimeout)
	for _, s := range c.servers {
		s.AwaitReadable(ctx, clean)
	}
	m.makeWorkers(c)
	c.connect(ctx)
	c.openGutters()
	m.beginRecipients()
	c.start(work, m.registry)
	m.startRecipients()
	for _, t := range m.poolStates {
		m.tend(work, t)
	}
	m.beginChanges()
	m.background.Go(func() { m.drive(work) })
	m.background.Go(func() { m.stage.Watch(work) })
	m.background.Go(func() { m.registry.KeepSampling(work) })
	return true
}

// tend compares and refills the replicas of t's pool until work is done or the current core lacks the pool. So the
// current core must have it already.
func (m *Middleware) tend(work context.Context, t *poolState) {
	m.background.Go(func() { m.sweep(work, t) })
	m.background.Go(func() { m.refill(work, t) })
}
