package control

import (
	"context"
	"errors"

	"mcmw/internal/middleware"
)

// check is the question whether a configuration could be applied now.
type check struct {
	text []byte // of the file
	// verdict: Run -> Check; exactly one element, capacity 1.
	verdict chan verdict
}

type verdict struct {
	changes []string
	err     error
}

// Check returns what a reload would say if the file contained text: the changes, one line for each option, or the
// error. later: the reload would try again until the changes can be applied. Nothing changes, except that names are
// looked up. Any goroutine may call it while Run runs.
func (k *Control) Check(ctx context.Context, text []byte) (changes []string, later bool, err error) {
	c := &check{text: text, verdict: make(chan verdict, 1)}
	select {
	case k.checks <- c:
	case <-ctx.Done():
		return nil, false, errors.New("mcmw is changing its configuration, or is stopping; try again")
	}
	v := <-c.verdict
	_, later = errors.AsType[middleware.NotYet](v.err)
	return v.changes, later, v.err
}

// judge answers c as reload would.
func (k *Control) judge(ctx context.Context, c *check, m Applier) {
	var v verdict
	defer func() { c.verdict <- v }()
	if k.config.File == "" {
		v.err = errors.New("this mcmw was started without a configuration file, so a reload changes nothing")
		return
	}
	next, err := k.load(c.text)
	if v.err = err; err != nil {
		return
	}
	v.changes = k.changes(next)
	defer k.finder.Forget(k.config.AllLookups())
	found, err := k.finder.Find(ctx, next.AllLookups())
	servers, err := k.checkFound(next, found, err)
	if err == nil && k.differs(next, servers) {
		err = next.Locate(m.Check(ctx, k.middleware(next, servers)))
	}
	v.err = err
}
