package netstage

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// loginPause is the time between two logins from an address that is slowed, and the time after which one failure is
// forgotten. At one attempt per second, eight random letters take thousands of years to guess.
var loginPause = time.Second

const (
	// freeLogins is the number of logins from an address that may fail before it is slowed. It leaves room for typing
	// errors, and for a client with an old password that reconnects a few times.
	freeLogins = 20
	// maxTurns is the number of logins from an address that may wait for their turn. Further ones are refused without a
	// check.
	maxTurns = 5
	// maxThrottled bounds the number of addresses that are remembered, at some 100 bytes each.
	maxThrottled = 10_000
	// evictSample is the number of addresses that are compared to find one to forget.
	evictSample = 8
)

// throttle slows the logins from addresses from which wrong ones come. Its methods may be called from any goroutine.
//
// For each address it keeps one number: the time at which all its failures are forgotten. A failure adds loginPause to
// it (the generic cell rate algorithm). While this time is at most freeLogins pauses ahead, logins are checked at once.
// Beyond that each login takes a turn of its own before it is checked, so that parallel connections guess no faster
// than one.
type throttle struct {
	pause int64 // loginPause, ns

	mu sync.Mutex // guards the field below; its holder never waits
	// clear is when the failures of an address are forgotten, ns of the caller's clock. Addresses without any are not
	// in it.
	clear map[netip.Addr]int64
}

func newThrottle() *throttle {
	return &throttle{pause: int64(loginPause), clear: make(map[netip.Addr]int64)}
}

// turn returns how long a login from addr that comes at now must wait. ok is false if that is too long: the login must
// be refused. taken reports that the login was given a turn; the caller passes it to failed or succeeded.
func (t *throttle) turn(addr netip.Addr, now int64) (wait time.Duration, taken, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ahead := t.clear[addr] - now - freeLogins*t.pause
	switch {
	case ahead <= 0:
		return 0, false, true
	case ahead > maxTurns*t.pause:
		return 0, false, false
	}
	t.clear[addr] += t.pause
	return time.Duration(ahead), true, true
}

// failed records a wrong login at now. taken is the result of turn.
func (t *throttle) failed(addr netip.Addr, now int64, taken bool) {
	if taken {
		return // turn has already added a pause
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	until, known := t.clear[addr]
	if !known && len(t.clear) >= maxThrottled {
		t.forget(now)
	}
	t.clear[addr] = max(until, now) + t.pause
}

// succeeded returns the turn of a correct login.
func (t *throttle) succeeded(addr netip.Addr, taken bool) {
	if !taken {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if until, known := t.clear[addr]; known {
		t.clear[addr] = until - t.pause
	}
}

// forget makes room for an address. Among a random sample it forgets all addresses without failures, or else the one
// with the fewest; mu is held.
func (t *throttle) forget(now int64) {
	var least netip.Addr
	seen, freed := 0, false
	for addr, until := range t.clear {
		if until <= now {
			delete(t.clear, addr)
			freed = true
		} else if !least.IsValid() || until < t.clear[least] {
			least = addr
		}
		if seen++; seen == evictSample {
			break
		}
	}
	if !freed {
		delete(t.clear, least)
	}
}

// throttledAddr returns the address to which failures from a are attributed: an IPv4 address; the /64 network of an
// IPv6 address, because one host may own all of it; or the zero Addr for all unix sockets.
func throttledAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if addr.Is6() {
		prefix, _ := addr.Prefix(64)
		return prefix.Addr()
	}
	return addr
}
