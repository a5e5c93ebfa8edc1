package faulty

import (
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a DNS server on loopback, over UDP. It knows the names that were set, and answers that others don't exist. Its
// methods may be called from any goroutine.
type DNS struct {
	conn  net.PacketConn
	ended chan struct{} // closed when the server has ended

	mu      sync.Mutex // guards the fields below
	addrs   map[string][]netip.Addr
	srv     map[string][]dnsmessage.SRVResource
	failing map[string]bool // by name; "" means every name
}

// StartDNS starts a DNS server that knows no names.
func StartDNS() (*DNS, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &DNS{
		conn: conn, ended: make(chan struct{}), addrs: make(map[string][]netip.Addr),
		srv:     make(map[string][]dnsmessage.SRVResource),
		failing: make(map[string]bool),
	}
	go func() {
		defer close(d.ended)
		d.serve()
	}()
	return d, nil
}

// Stop ends the server.
func (d *DNS) Stop() {
	_ = d.conn.Close()
	<-d.ended
}

// Addr returns the server's address, "host:port".
func (d *DNS) Addr() string { return d.conn.LocalAddr().String() }

// SetAddrs sets the IPv4 and IPv6 addresses of name. Without addresses the name does not exist.
func (d *DNS) SetAddrs(name string, addrs ...string) {
	parsed := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		parsed[i] = netip.MustParseAddr(a)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs[key(name)] = parsed
}

// Target is the content of an SRV record.
type Target struct {
	Host             string
	Port             int
	Priority, Weight int
}

// SetSRV sets the SRV records of name. Without records the name does not exist.
func (d *DNS) SetSRV(name string, targets ...Target) {
	records := make([]dnsmessage.SRVResource, len(targets))
	for i, t := range targets {
		records[i] = dnsmessage.SRVResource{
			Target: dnsmessage.MustNewName(key(t.Host) + "."), Port: uint16(t.Port), Priority: uint16(t.Priority),
			Weight: uint16(t.Weight),
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.srv[key(name)] = records
}

// Fail makes the server answer questions for name ("": any name) with SERVFAIL, until Heal.
func (d *DNS) Fail(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing[key(name)] = true
}

// Heal ends the failures of all names.
func (d *DNS) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.failing)
}

// key returns the normalized form of a name, under which it is stored.
func key(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func (d *DNS) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(buffer)
		if err != nil {
			return // closed
		}
		var query dnsmessage.Message
		if err := query.Unpack(buffer[:n]); err != nil || len(query.Questions) != 1 {
			continue
		}
		message := d.answer(query)
		reply, err := message.Pack()
		if err != nil {
			continue // an invalid name: no answer
		}
		_, _ = d.conn.WriteTo(reply, from)
	}
}

// answer returns the reply to query, which has one question.
func (d *DNS) answer(query dnsmessage.Message) dnsmessage.Message {
	q := query.Questions[0]
	name := key(q.Name.String())
	reply := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: query.ID, Response: true, Authoritative: true,
			RecursionDesired: query.RecursionDesired, RecursionAvailable: true,
		},
		Questions: query.Questions,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing[""] || d.failing[name] {
		reply.RCode = dnsmessage.RCodeServerFailure
		return reply
	}
	if len(d.addrs[name]) == 0 && len(d.srv[name]) == 0 {
		reply.RCode = dnsmessage.RCodeNameError
		return reply
	}
	add := func(body dnsmessage.ResourceBody) {
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}
		reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: body})
	}
	switch q.Type {
	case dnsmessage.TypeA:
		for _, a := range d.addrs[name] {
			if a.Is4() {
				add(&dnsmessage.AResource{A: a.As4()})
			}
		}
	case dnsmessage.TypeAAAA:
		for _, a := range d.addrs[name] {
			if a.Is6() {
				add(&dnsmessage.AAAAResource{AAAA: a.As16()})
			}
		}
	case dnsmessage.TypeSRV:
		for _, r := range d.srv[name] {
			add(&r)
		}
	}
	return reply
}
