package netstage

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// heard makes a login from addr at a time and returns how long it waits; ok reports whether it is checked.
func heard(t *throttle, addr netip.Addr, at time.Duration, right bool) (wait time.Duration, ok bool) {
	wait, taken, ok := t.turn(addr, int64(at))
	switch {
	case !ok:
	case right:
		t.succeeded(addr, taken)
	default:
		t.failed(addr, int64(at+wait), taken)
	}
	return wait, ok
}

func TestAnAddressMayFailSomeTimesBeforeItIsSlowed(t *testing.T) {
	throttle, addr, other := newThrottle(), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for range freeLogins + 1 { // the first second's failure is forgotten as the last comes
		wait, ok := heard(throttle, addr, time.Second, false)
		assert.True(t, ok)
		assert.Zero(t, wait)
	}
	for turn := 1; turn <= maxTurns; turn++ {
		wait, ok := heard(throttle, addr, time.Second, false)
		assert.True(t, ok)
		assert.Equal(t, time.Duration(turn)*loginPause, wait, "one after the other")
	}
	_, ok := heard(throttle, addr, time.Second, true)
	assert.False(t, ok, "also a correct one: a guesser must not learn that it is correct")
	wait, ok := heard(throttle, other, time.Second, true)
	assert.True(t, ok)
	assert.Zero(t, wait, "another address")

	wait, ok = heard(throttle, addr, time.Second+loginPause, true)
	assert.True(t, ok)
	assert.Equal(t, maxTurns*loginPause, wait)
	again, ok := heard(throttle, addr, time.Second+loginPause, true)
	assert.True(t, ok)
	assert.Equal(t, wait, again, "a correct login returns its turn")

	wait, ok = heard(throttle, addr, time.Hour, false)
	assert.True(t, ok)
	assert.Zero(t, wait, "failures are forgotten")
}

func TestCorrectLoginsAreNotRemembered(t *testing.T) {
	throttle := newThrottle()
	for i := range 1000 {
		wait, ok := heard(throttle, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 0, true)
		assert.True(t, ok)
		assert.Zero(t, wait)
	}
	assert.Empty(t, throttle.clear)
}

func TestTheMemoryForAddressesIsBounded(t *testing.T) {
	throttle, worst := newThrottle(), netip.MustParseAddr("192.0.2.1")
	addr := netip.MustParseAddr("2001:db8::")
	for i := range 3 * maxThrottled {
		heard(throttle, worst, time.Duration(i), false)
		addr = addr.Next()
		heard(throttle, addr, time.Duration(i), false)
		if len(throttle.clear) > maxThrottled {
			assert.FailNow(t, "too many addresses are remembered")
		}
	}
	wait, _ := heard(throttle, worst, time.Second, true)
	assert.Positive(t, wait, "the address that failed most is remembered")

	heard(throttle, addr.Next(), time.Hour, false)
	assert.Less(t, len(throttle.clear), maxThrottled, "addresses without failures are forgotten first")
}

func TestAHostCannotEscapeThrottlingByItsOtherAddresses(t *testing.T) {
	of := func(ip string) netip.Addr { return throttledAddr(&net.TCPAddr{IP: net.ParseIP(ip)}) }
	assert.Equal(t, of("2001:db8::1"), of("2001:db8::ffff:1"))
	assert.NotEqual(t, of("2001:db8::1"), of("2001:db8:0:1::1"))
	assert.Equal(t, of("192.0.2.1"), of("::ffff:192.0.2.1"))
	assert.NotEqual(t, of("192.0.2.1"), of("192.0.2.2"))
	assert.Equal(t, throttledAddr(&net.UnixAddr{Name: "@"}), throttledAddr(&net.UnixAddr{Name: "/a"}))
}
