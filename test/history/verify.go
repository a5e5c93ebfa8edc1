package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"
)

// Verified is the result of a verified load on a service.
type Verified struct {
	Reads  Counts `json:"reads"`
	Writes Counts `json:"writes"`
	Misses uint64 `json:"misses"`
	// Wrong values were never stored under their key. Stale ones were older than a write acknowledged or a value read
	// before.
	Wrong uint64 `json:"wrong"`
	Stale uint64 `json:"stale"`
	// Ended is how many connections ended in an orderly way, between two replies. Their unanswered requests were
	// repeated on other connections and count once.
	Ended uint64 `json:"ended"`
	// Refused is how many attempts to connect failed.
	Refused  uint64       `json:"refused"`
	Audited  uint64       `json:"audited"` // keys read once more at the end
	Shared   Shared       `json:"shared"`
	Errors   []ErrorCount `json:"errors"`
	Examples []string     `json:"examples"` // of violations

	// StaleAfter counts the stale values that were read in the phase After.
	StaleAfter uint64 `json:"-"`
	// Withdrawn counts values that were older than one read before, but not older than the last acknowledged write, if
	// the service may be killed. Otherwise they are stale.
	Withdrawn uint64   `json:"-"`
	Failures  Failures `json:"-"`
	// LastFailure is when the last failed request was due.
	LastFailure time.Time `json:"-"`
}

// Broken returns an error if there was any violation: a failed or lost request, a failed attempt to connect, a wrong or
// stale value.
func (v *Verified) Broken() error {
	var broken []string
	for _, count := range []struct {
		n    uint64
		what string
	}{
		{v.Reads.Failed, "reads failed"},
		{v.Writes.Failed, "writes failed"},
		{v.Reads.Lost + v.Writes.Lost, "requests lost"},
		{v.Refused, "connections refused"},
		{v.Wrong, "values wrong"},
		{v.Stale, "values stale"},
		{v.Shared.Failed, "requests for shared keys failed"},
		{v.Shared.Wrong, "values of shared keys wrong"},
		{v.Shared.Stale, "values of shared keys stale"},
		{v.Shared.Lost, "increments lost"},
		{v.Shared.Twice, "increments with the same answer as another"},
		{v.Shared.Gone, "counters gone"},
		{v.Shared.WithoutWinner, "adds of one key without a winner"},
		{v.Shared.SeveralWinners, "adds of one key with several winners"},
		{v.Shared.Differing, "keys that differ between replicas"},
	} {
		if count.n > 0 {
			broken = append(broken, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	if broken == nil {
		return nil
	}
	return errors.New(strings.Join(broken, ", "))
}

// WriteText writes the result as text.
func (v *Verified) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, line := range []struct {
		name string
		c    Counts
	}{{"reads", v.Reads}, {"writes", v.Writes}} {
		fmt.Fprintf(&b, "%-8s %d sent, %d succeeded, %d failed, %d lost; slowest %.1f ms\n", line.name, line.c.Sent,
			line.c.Succeeded, line.c.Failed, line.c.Lost, line.c.Slowest.Seconds()*1e3)
	}
	fmt.Fprintf(&b, "values   %d wrong, %d stale; %d misses; %d keys read once more at the end\n", v.Wrong, v.Stale,
		v.Misses, v.Audited)
	fmt.Fprintf(&b, "clients  %d connections ended in an orderly way and were replaced, %d refused\n", v.Ended,
		v.Refused)
	if s := v.Shared; s.Requests > 0 {
		fmt.Fprintf(&b, "shared   %d requests, %d failed; %d wrong, %d stale; %d of %d keys differ\n", s.Requests,
			s.Failed, s.Wrong, s.Stale, s.Differing, s.Compared)
		fmt.Fprintf(&b, "counts   %d incr and %d cas: %d lost, %d twice, %d counters gone\n", s.Increments, s.Swaps,
			s.Lost, s.Twice, s.Gone)
		fmt.Fprintf(&b, "locks    %d contests: %d without a winner, %d with several\n", s.Contests, s.WithoutWinner,
			s.SeveralWinners)
	}
	for _, e := range v.Errors {
		fmt.Fprintf(&b, "error    %d times: %s (first: %s)\n", e.Count, e.Text, e.First)
	}
	for _, e := range v.Examples {
		fmt.Fprintf(&b, "example  %s\n", e)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Verify puts load on a service for d, or, if that is 0, until ctx ends, checks every answer, and reads every key again
// at the end. Clients reconnect when a connection ends; if the end was orderly, between two replies, they repeat the
// unanswered requests. The end of ctx ends the load and is no error.
func Verify(ctx context.Context, o Options, d time.Duration) (*Verified, error) {
	if o.Clients < 1 || o.Rate < 1 || o.Rate > maxRate {
		return nil,
			fmt.Errorf("%d clients, %d requests per second: expected at least 1, and at most %d requests per second",
				o.Clients, o.Rate, maxRate)
	}
	if o.SharedClients < 0 || (o.SharedClients > 0 && (o.SharedRate < 1 || o.SharedRate > maxRate)) {
		return nil,
			fmt.Errorf("%d clients that share keys, %d requests per second: expected at least 0 clients, and 1 to %d "+
				"requests per second", o.SharedClients, o.SharedRate, maxRate)
	}
	if len(o.Addrs) == 0 {
		return nil, errors.New("no address: expected host:port")
	}
	// A service that no client can reach is an error. A load that is stopped before it has begun is none.
	for _, addr := range o.Addrs {
		conn, err := net.DialTimeout("tcp", addr, AnswerWithin)
		if err != nil {
			return nil, err
		}
		conn.Close()
	}
	o.Prefix = fmt.Sprintf("verify-%x-", rand.Uint64()) // this run must not read values of earlier runs
	o.Resend = true
	l := Start(o)
	select {
	case <-ctx.Done():
	case <-time.After(cmp.Or(d, math.MaxInt64)):
	}
	l.Stop()
	sharing := l.AuditShared()
	var err error
	for _, addr := range o.Addrs {
		err = errors.Join(err, l.Audit(context.WithoutCancel(ctx), addr, 1))
	}
	v := l.Verified()
	if sharing != nil {
		v.Shared, v.Examples = *sharing, append(v.Examples, sharing.Examples...)
	}
	if err != nil {
		return v, fmt.Errorf("reading every key once more: %w", err)
	}
	return v, nil
}

// maxRate is the most requests per second that one process sends and judges.
const maxRate = 100_000

// Verified returns the counts. Those of shared keys are from AuditShared.
func (l *Load) Verified() *Verified { return l.tally.verified() }

func (t *tally) verified() *Verified {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &Verified{
		Misses: t.misses, Wrong: t.wrong, Ended: t.orderly, Refused: t.refused, Audited: t.audited,
		Errors: t.errorCounts(), Examples: slices.Clone(t.examples), StaleAfter: t.stale[After], Withdrawn: t.withdrawn,
		LastFailure: t.lastFault,
	}
	for class, failed := range t.failed {
		v.Failures[class] = maps.Clone(failed)
	}
	for p := range numPhases {
		v.Reads.add(t.reads[p])
		v.Writes.add(t.writes[p])
		v.Stale += t.stale[p]
	}
	return v
}
