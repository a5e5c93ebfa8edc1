package middleware

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// recipient is a pool that gets what the workers of another pool did, later, such as a shadow. Clients don't use it,
// and nobody waits for it except Run at its end.
type recipient struct {
	// Static after construction.
	ties
	recipientKind

	// Guarded by Middleware.applying.
	stop  context.CancelCauseFunc // nil until it is started
	ended chan struct{}           // closed when nothing of it runs; nil until it is started
}

// ties tell recipients apart: by their kind, the name of the pool whose requests they get, and that of their own pool.
type ties struct{ kind, of, name string }

// recipientOptions are what Options say about a recipient.
type recipientOptions interface {
	ties() ties
	to() *PoolOptions
	// explain says which requests for key go to holders, servers of the recipient.
	explain(key, holders string) string
	// open returns a new recipient, which is not started. o has the options. applying is held.
	open(m *Middleware, o *Options) (recipientKind, error)
}

// recipientKind is what the kinds of recipients do in different ways. wanted are the options in o of this recipient.
type recipientKind interface {
	// check returns the error with which change would refuse o.
	check(ctx context.Context, o *Options, wanted recipientOptions) error
	// change applies o; also to one that is new. applying is held.
	change(ctx context.Context, m *Middleware, o *Options, wanted recipientOptions) error
	// begin is called before workers tell it anything; applying is held. work is that of Middleware.
	begin(work context.Context)
	// run serves it until ctx is done and nothing of it is left. The cause is errRemoved if it is not wanted any more.
	run(ctx context.Context)
	// owes reports whether it would deliver something that run does not, if ctx were done now.
	owes() bool
	// outbox returns what a worker tells.
	outbox() request.Recipient
	// addState adds the state to s; t are the recipient's ties.
	addState(t ties, s *stats.Snapshot)
}

// ExplainRecipients shows where requests for key, which is in the pool called of, go later, with the kind of each
// recipient.
func (o *Options) ExplainRecipients(of, key string, show func(kind, text string)) error {
	for _, r := range o.recipients() {
		t, to := r.ties(), r.to()
		if t.of != of {
			continue
		}
		router, err := route.New(to.Servers, to.Options)
		if err != nil {
			return err
		}
		var names []string
		for _, s := range router.Replicas([]byte(key), nil) {
			names = append(names, to.Servers[s].Name)
		}
		show(t.kind, r.explain(key, strings.Join(names, ", ")+" of pool "+to.Name))
	}
	return nil
}

var errRemoved = errors.New("the options have no such recipient any more")

// recipientsFor returns the recipients of o: the existing one with these ties, or a new one. It returns an error if one
// of them refuses o, and changes nothing. applying is held.
func (m *Middleware) recipientsFor(ctx context.Context, o *Options) (all []*recipient, err error) {
	for _, wanted := range o.recipients() {
		same := func(r *recipient) bool { return r.ties == wanted.ties() }
		if at := slices.IndexFunc(m.recipients, same); at >= 0 {
			all = append(all, m.recipients[at])
		} else {
			kind, err := wanted.open(m, o)
			if err != nil {
				return nil, err
			}
			all = append(all, &recipient{ties: wanted.ties(), recipientKind: kind})
		}
		if err := all[len(all)-1].check(ctx, o, wanted); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// applyRecipients applies the recipients of o; the next core may use them, and startRecipients starts them. It returns
// those that were removed, which must be stopped once no worker of an earlier core is left. One that becomes a pool has
// ended when applyRecipients returns. applying is held.
func (m *Middleware) applyRecipients(ctx context.Context, o *Options) (removed []*recipient, err error) {
	all, err := m.recipientsFor(ctx, o)
	if err != nil {
		return nil, err
	}
	for i, wanted := range o.recipients() {
		if err := all[i].change(ctx, m, o, wanted); err != nil {
			return nil, err
		}
	}
	for _, r := range m.recipients {
		if slices.Contains(all, r) || r.stop == nil {
			continue
		}
		// the pool judges its servers by what the recipient leaves there
		if o.poolNamed(r.name).Name != "" {
			r.stop(errRemoved)
			<-r.ended
			continue
		}
		removed = append(removed, r)
	}
	m.recipients = all
	m.beginRecipients()
	return removed, nil
}

// beginRecipients prepares the recipients that have not been started. applying is held.
func (m *Middleware) beginRecipients() {
	for _, r := range m.recipients {
		if m.work != nil && r.stop == nil {
			r.begin(m.work)
		}
	}
}

// startRecipients starts the recipients that have not been started, once clients are served. applying is held.
func (m *Middleware) startRecipients() {
	for _, r := range m.recipients {
		if m.work == nil || r.stop != nil {
			continue
		}
		ctx, stop := context.WithCancelCause(m.work)
		ended := make(chan struct{})
		r.stop, r.ended = stop, ended
		m.background.Go(func() {
			defer close(ended)
			r.run(ctx)
		})
	}
}

// stopRecipients tells recipients that were removed to end, without waiting.
func stopRecipients(removed []*recipient) {
	for _, r := range removed {
		r.stop(errRemoved)
	}
}

// endRecipients gives the recipients until deadline to deliver what they owe, and ends them.
func (m *Middleware) endRecipients(deadline time.Time) {
	for _, r := range m.recipients {
		for r.owes() && time.Now().Before(deadline) {
			time.Sleep(deliverPause)
		}
	}
	for _, r := range m.recipients {
		r.stop(nil)
	}
	for _, r := range m.recipients {
		<-r.ended
	}
}

// deliverPause is the time between two looks whether everything is delivered.
const deliverPause = 5 * time.Millisecond

// recipientsOf returns what a worker tells of the requests of the pool called name.
func (c *core) recipientsOf(name string) (all []request.Recipient) {
	for _, r := range c.recipients {
		if r.of == name {
			all = append(all, r.outbox())
		}
	}
	return all
}
