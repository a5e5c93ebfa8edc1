package control

import (
	"context"
	"errors"

	"mcmw/internal/middleware"
)

// question asks whether a configuration could be applied to m now; nil: its servers have not been found yet.
type question func(ctx context.Context, m Applier)

// Check returns what a reload would say if the file contained text: the changes, one line for each option, or the
// error. later: the reload would try again until the changes can be applied. Nothing changes, except that names are
// looked up. Any goroutine may call it while Run runs.
func (k *Control) Check(ctx context.Context, text []byte) (changes []string, later bool, err error) {
	answered := make(chan struct{})
	ask := func(ctx context.Context, m Applier) {
		defer close(answered)
		changes, err = k.judge(ctx, text, m)
	}
	select {
	case k.questions <- ask:
	case <-ctx.Done():
		return nil, false, errors.New("mcmw is changing its configuration, or is stopping; try again")
	}
	<-answered
	_, later = errors.AsType[middleware.NotYet](err)
	return changes, later, err
}

// judge returns what reload would say of text.
func (k *Control) judge(ctx context.Context, text []byte, m Applier) (changes []string, err error) {
	switch {
	case m == nil:
		return nil, errors.New("the names of the servers have not been found yet")
	case k.config.File == "":
		return nil, errors.New("this mcmw was started without a configuration file, so a reload changes nothing")
	}
	next, err := k.load(text)
	if err != nil {
		return nil, err
	}
	defer k.finder.Forget(k.config.AllLookups())
	found, err := k.finder.Find(ctx, next.AllLookups())
	servers, err := k.checkFound(next, found, err)
	if err == nil && k.differs(next, servers) {
		err = next.Locate(m.Check(ctx, k.middleware(next, servers)))
	}
	return k.changes(next), err
}
