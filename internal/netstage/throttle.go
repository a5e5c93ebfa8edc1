package netstage

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// loginPause is the time between two logins of an address that is slowed, and the time after which one failure is forgotten: at
// one a second eight random letters take thousands of years to guess.
var loginPause = time.Second

const (
	// freeLogins is how many logins of an address may fail before it is slowed: a person's slips, and a client with an old
	// password that connects anew some times.
	freeLogins = 20
	// maxTurns is how many logins of an address may wait for their turn. What comes beyond is refused unheard.
	maxTurns = 5
	// maxThrottled bounds the addresses that are remembered, some 100 bytes each.
	maxThrottled = 10_000
	// evictLooks is how many addresses are compared to find one to forget.
	evictLooks = 8
)

// throttle slows the logins of addresses from which wrong ones come. Its methods may be called from any goroutine.
//
// An address has one number, the time at which its failures are forgotten: a failure moves it loginPause ahead (the generic cell
// rate algorithm). While it is no more than freeLogins pauses ahead, logins are heard at once; else each one takes a turn of
// its own before it is heard, so that connections in parallel guess no faster than one.
type throttle struct {
	pause int64 // loginPause, ns

	mu sync.Mutex // guards the field below; held for a few steps
	// clear is when the failures of an address are forgotten, ns of the caller's clock. Addresses without any are not in it.
	clear map[netip.Addr]int64
}

func newThrottle() *throttle {
	return &throttle{pause: int64(loginPause), clear: make(map[netip.Addr]int64)}
}

// turn returns how long a login of addr has to wait at now. ok is false if that is too long: the login is not to be heard. taken
// means that the login was given a turn, which ends with failed or succeeded.
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

// failed notes a wrong login at now. taken is what turn said.
func (t *throttle) failed(addr netip.Addr, now int64, taken bool) {
	if taken {
		return // the turn is paid for
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	until, known := t.clear[addr]
	if !known && len(t.clear) >= maxThrottled {
		t.forget(now)
	}
	t.clear[addr] = max(until, now) + t.pause
}

// succeeded gives the turn of a right login back.
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

// forget makes room for an address: of a few that the map yields in random order it forgets all that have no failures left, or else
// the one with the fewest; mu is held.
func (t *throttle) forget(now int64) {
	var least netip.Addr
	looks, freed := 0, false
	for addr, until := range t.clear {
		if until <= now {
			delete(t.clear, addr)
			freed = true
		} else if !least.IsValid() || until < t.clear[least] {
			least = addr
		}
		if looks++; looks == evictLooks {
			break
		}
	}
	if !freed {
		delete(t.clear, least)
	}
}

// throttledAddr returns what failures from a are counted for: an IPv4 address, the network of 64 bits that one IPv6 host may have to itself, or the
// zero Addr for all unix sockets.
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
