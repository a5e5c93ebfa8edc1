package behaviour_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"mcmw/internal/mctest"
)

// orderClient is one connection of the order test: it sends pipelines of random requests and knows the expected
// replies. For keys that only it uses, it knows the exact bytes. For shared keys it expects a value of one of the
// writers that is not older than the last value that it wrote or saw.
type orderClient struct {
	replyReader
	number int // from 1; its values of shared keys contain it
	rng    *rand.Rand
	seq    int // of its values
	own    [ownKeys]ownKey
	shared *sharedKeys
	batch  [2]batch
	turn   int    // the batch to be used next
	waits  *batch // sent, with unread replies
	sent   int    // requests

	// By shared key: the counts of this connection's values that are still possible, from mine to issued.
	mine, issued [sharedValues]int
	casOf        [sharedValues]uint64 // the last cas seen, 0 if none
	// By counter: the last number that this connection received.
	counted [sharedCounters]uint64
	// increments it sent, by counter.
	increments [sharedCounters]uint64

	// seen has the values of shared keys that this connection saw, in order; the first applied of them are in newest,
	// by key and writer. The reply to a request can't have a value older than one seen before the request was sent.
	seen    []observation
	applied int
	dropped int // observations applied and no longer in seen
	newest  [sharedValues][]int

	tag   tagged
	value []byte // scratch space
}

type observation struct{ key, writer, seq int }

// sharedKeys are the keys that all connections use.
type sharedKeys struct {
	values   [sharedValues]string
	counters [sharedCounters]string
}

// sharedFiller is the largest filler of the shared keys' values, bytes.
const sharedFiller = 600

func newOrderClient(conn net.Conn, prefix string, number, writers int, shared *sharedKeys, seed uint64) *orderClient {
	c := &orderClient{
		replyReader: replyReader{conn: conn, buf: make([]byte, 32<<10)},
		number:      number, rng: rand.New(rand.NewPCG(seed, uint64(number))), shared: shared,
		tag: tagged{most: sharedFiller},
	}
	for i := range c.own {
		k := &c.own[i]
		k.name = spreadName(fmt.Sprintf("%s.c%d.k%d", prefix, number, i), number*ownKeys+i)
		k.numeric = i >= ownKeys-ownNumbers
		k.tokenVersion = -1
		switch i { // keys of several lengths: short, longer than usual, and the maximum
		case 3:
			k.name += longName[:40-len(k.name)]
		case 4, 5:
			k.name += longName[:250-len(k.name)]
		}
	}
	for i := range c.newest {
		c.newest[i] = make([]int, writers+1)
	}
	return c
}

// release frees buffers that grow with the longest pipeline so far, because they would count as memory that the
// middleware does not free. No reply may be pending.
func (c *orderClient) release() {
	c.batch, c.value = [2]batch{}, nil
	for i := range c.own {
		c.own[i].value = bytes.Clone(c.own[i].value)
	}
}

// spreadName puts digits that depend on n before name. Without them the ring would place names that differ only in
// their last digits on one server.
func spreadName(name string, n int) string { return fmt.Sprintf("%04x.%s", uint16(n*40503), name) }

var longName = string(slices.Repeat([]byte("abcdefghij"), 25))

// run sends about n requests in pipelines of 1 to 64, and checks every reply. It usually sends a pipeline before it has
// read the replies to the previous one.
func (c *orderClient) run(n int) error {
	for n > 0 {
		if c.rng.IntN(4) == 0 {
			if err := c.verify(); err != nil {
				return err
			}
		}
		b := c.next()
		for range min(n, 1+c.rng.IntN(64)) {
			c.request(b)
			if len(b.out) > largestBatch || len(b.want) > largestBatch {
				break
			}
		}
		n -= b.requests
		if err := c.send(b); err != nil {
			return err
		}
	}
	return c.verify()
}

// next returns an empty batch.
func (c *orderClient) next() *batch {
	b := &c.batch[c.turn]
	c.turn = 1 - c.turn
	b.reset()
	b.known = c.dropped + len(c.seen)
	return b
}

// send writes b, sometimes in up to four pieces, and reads the replies to the previous batch.
func (c *orderClient) send(b *batch) error {
	b.close()
	c.sent += b.requests
	if err := c.conn.SetDeadline(time.Now().Add(mctest.Patience)); err != nil {
		return err
	}
	rest := b.out
	pieces := 1
	if c.rng.IntN(4) == 0 {
		pieces += c.rng.IntN(4)
	}
	for range pieces - 1 {
		cut := c.rng.IntN(len(rest) + 1)
		if _, err := c.conn.Write(rest[:cut]); err != nil {
			return fmt.Errorf("connection %d, writing: %w", c.number, err)
		}
		rest = rest[cut:]
	}
	if _, err := c.conn.Write(rest); err != nil {
		return fmt.Errorf("connection %d, writing: %w", c.number, err)
	}
	err := c.verify()
	c.waits = b
	return err
}

// verify reads the replies that are due and compares them.
func (c *orderClient) verify() error {
	b := c.waits
	if b == nil {
		return nil
	}
	c.waits = nil
	c.learn(b.known)
	at := 0 // in want
	for i := range b.expects {
		e := &b.expects[i]
		var err error
		if e.kind == expectBytes {
			var same int
			same, err = c.exact(b.want[at:e.to])
			at += same
		} else {
			err = c.check(e)
		}
		if err != nil {
			return fmt.Errorf("connection %d, after %d requests: %w\nthe request and those before it:%s",
				c.number, c.sent, err, b.request(at, i))
		}
	}
	return nil
}

// leave half-closes the connection, and expects its end without further replies.
func (c *orderClient) leave() error {
	defer c.conn.Close()
	if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
		return fmt.Errorf("connection %d, at its end: %w", c.number, err)
	}
	rest, err := io.ReadAll(c.conn)
	if rest = append(c.buf[c.pos:c.end:c.end], rest...); len(rest) > 0 {
		return fmt.Errorf("connection %d: received %q after the last reply", c.number, clip(rest))
	}
	return err
}

// learn applies the first known observations: later values can't be older.
func (c *orderClient) learn(known int) {
	for ; c.dropped+c.applied < known; c.applied++ {
		o := c.seen[c.applied]
		c.newest[o.key][o.writer] = max(c.newest[o.key][o.writer], o.seq)
	}
	if c.applied == len(c.seen) || c.applied > 1000 {
		c.dropped += c.applied
		c.seen = append(c.seen[:0], c.seen[c.applied:]...)
		c.applied = 0
	}
}

// check reads and checks a piece of a reply whose bytes are not known in advance.
func (c *orderClient) check(e *expect) error {
	switch e.kind {
	case expectToken:
		return c.checkToken(e)
	case expectShared:
		return c.checkShared(e, 2)
	case expectSharedCas:
		return c.checkShared(e, 3)
	case expectCounter:
		return c.checkCounter(e)
	case expectIncremented:
		digits, err := c.number64()
		if err != nil {
			return err
		}
		return c.count(e.shared, digits, true)
	}
	line, err := c.line()
	if err != nil {
		return err
	}
	if !slices.Contains(e.lines, string(line)) {
		return fmt.Errorf("received %q, expected one of %q", clip(line), e.lines)
	}
	return nil
}

func (c *orderClient) number64() (uint64, error) {
	digits, err := c.replyReader.number()
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(digits), 10, 64)
}

// checkToken reads a cas. It stays while the item is unchanged, and differs between any two states of the item.
func (c *orderClient) checkToken(e *expect) error {
	digits, err := c.replyReader.number()
	if err != nil {
		return err
	}
	k := e.own
	same := string(k.token) == string(digits)
	switch {
	case k.tokenVersion == e.version && !same:
		return fmt.Errorf("the cas of %q is %s, but was %s, and it was not changed since", k.name, digits, k.token)
	case k.tokenVersion >= 0 && k.tokenVersion != e.version && same:
		return fmt.Errorf("the cas of %q is %s as before, but it was changed since", k.name, digits)
	}
	k.token = append(k.token[:0], digits...)
	k.tokenVersion = e.version
	return nil
}

// checkShared reads the VALUE of a shared key, if there is one.
func (c *orderClient) checkShared(e *expect, numbers int) error {
	name := c.shared.values[e.shared]
	v, found, err := c.item(name, numbers)
	if err != nil || !found {
		return err
	}
	writer, seq, err := c.tag.check(v.data, name)
	switch {
	case err != nil:
		return err
	case writer < 1 || writer >= len(c.newest[e.shared]) || v.flags != uint64(writer):
		return fmt.Errorf("the value of %q by writer %d has flags %d", name, writer, v.flags)
	case writer == c.number && (seq < e.from || seq > e.up):
		return fmt.Errorf("the value of %q is the connection's own, count %d, but at the time of the request it "+
			"could be %d to %d only",
			name, seq, e.from, e.up)
	case seq < c.newest[e.shared][writer]:
		return fmt.Errorf("the value of %q by writer %d has count %d, but the connection had seen count %d before it "+
			"sent the request",
			name, writer, seq, c.newest[e.shared][writer])
	}
	c.seen = append(c.seen, observation{e.shared, writer, seq})
	if numbers == 3 {
		c.casOf[e.shared] = v.cas
	}
	return nil
}

// checkCounter reads the VALUE of a counter, which is always there.
func (c *orderClient) checkCounter(e *expect) error {
	name := c.shared.counters[e.shared]
	v, found, err := c.item(name, 2)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("received %q where the VALUE of the counter %q was expected", clip(c.buf[c.pos:c.end]), name)
	}
	n, err := strconv.ParseUint(string(v.data), 10, 64)
	if err != nil {
		return fmt.Errorf("the counter %q is %q: %w", name, clip(v.data), err)
	}
	return c.count(e.shared, n, false)
}

// count checks the number of a counter: never less than when this connection last incremented it.
func (c *orderClient) count(counter int, n uint64, incremented bool) error {
	last := c.counted[counter]
	if n < last || (incremented && n == last) {
		return fmt.Errorf("the counter %q is %d, but an earlier increment of the connection had made it %d",
			c.shared.counters[counter], n, last)
	}
	if incremented {
		c.counted[counter] = n
	}
	return nil
}
