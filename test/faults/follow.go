package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"mcmw/internal/faulty"
	"mcmw/test/history"
)

const (
	// farAway is the delay of replies of the server of a following pool.
	farAway = 100 * time.Millisecond
	// followsWithin is the time within which nothing is owed to it any more, after the load.
	followsWithin = time.Minute
)

// withFollower configures a pool, and one that follows it.
func withFollower(s *system, servers []string) string {
	return fmt.Sprintf("pools:\n  main: {servers: [%s], follow: [{pool: other, what: all}]}\n"+
		"  other: {servers: [%s=%s], replicas: 1}\nroutes: [{default: main}]\n", strings.Join(servers, ", "),
		s.follower.name, s.follower.addr())
}

// launchFollower starts the server of the following pool, in a network namespace of its own.
func (s *system) launchFollower(ctx context.Context) (err error) {
	f := &server{name: "follower"}
	if f.space, err = newNamespace(); err != nil {
		return err
	}
	s.follower, f.host = f, f.space.address
	if err = s.launch(ctx, f); err != nil {
		return err
	}
	if f.proxy, err = faulty.StartProxy(f.own()); err != nil {
		return err
	}
	f.proxy.Inject(faulty.Fault{Delay: farAway})
	return nil
}

// stopFollower ends the server of the following pool, if there is one.
func (s *system) stopFollower() (err error) {
	f := s.follower
	if f == nil {
		return nil
	}
	if f.proc != nil {
		f.proc.Stop(syscall.SIGKILL)
	}
	if f.proxy != nil {
		f.proxy.Stop()
	}
	if f.space == nil {
		return nil
	}
	return f.space.remove()
}

// cutFollower loses all packets to and from the server of the following pool.
func cutFollower(_ context.Context, s *system) error { return s.follower.space.partition() }

// joinFollower ends that.
func joinFollower(_ context.Context, s *system) error { return s.follower.space.heal() }

// checkFollower waits until nothing is owed to the following pool, and then reads every key there: none may be older
// than the last acknowledged write.
func (r *Result) checkFollower(ctx context.Context, sys *system, l *history.Load) {
	began := time.Now()
	var owed []string
	err := pollFor(ctx, followsWithin, func() (done bool, err error) {
		owed = nil
		for _, a := range sys.admins {
			m, err := a.metrics(ctx)
			if err != nil {
				return false, errors.Join(sys.mcmw.Ended(), err)
			}
			debts, ok := m[`mcmw_follow_debts{follower="other",pool="main"}`]
			doubt := m[`mcmw_follow_doubtful{follower="other",pool="main"}`]
			if !ok || debts > 0 || doubt > 0 {
				owed = append(owed, fmt.Sprintf("%s owes %v keys, doubtful %v", a.addr, debts, doubt))
			}
		}
		return len(owed) == 0, nil
	})
	if err != nil || len(owed) > 0 {
		r.breaks("%v after the load: %s (%v)", followsWithin, strings.Join(owed, "; "), err)
		return
	}
	after := time.Since(began)
	r.Followed = &after
	r.audit(ctx, l, "reading every key from the following pool", sys.follower.own(), 1)
}
