package discover

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcmw/internal/route"
)

// Lookup is the way in which an entry of the configured list is resolved to servers.
type Lookup uint8

// The lookups. Their texts are the prefixes of entries; Static has none.
const (
	Static     Lookup = iota // the entry is the server
	Addresses                // every address of a name is a server
	Addresses4               // every IPv4 address
	Addresses6               // every IPv6 address
	Service                  // every SRV record is a server
	Endpoints                // every endpoint of a Kubernetes Service is a server
	Nodes                    // every node that the answer to `config get cluster` lists is a server
	numLookups
)

var lookupPrefixes = [numLookups]string{"", "dns+", "dns4+", "dns6+", "srv+", "k8s+", "cluster+"}

// networks are the resolver's names for kinds of addresses.
var networks = [numLookups]string{Addresses: "ip", Addresses4: "ip4", Addresses6: "ip6"}

// String returns the prefix of entries with this lookup; "" for Static.
func (l Lookup) String() string { return lookupPrefixes[l] }

// CutLookup splits address into the lookup and the name that is looked up.
func CutLookup(address string) (Lookup, string) {
	for l := Addresses; l < numLookups; l++ {
		if name, ok := strings.CutPrefix(address, l.String()); ok {
			return l, name
		}
	}
	return Static, address
}

// RecordWeight, as the weight of an entry with lookup Service, gives every server the weight of its SRV record,
// relative to the others.
const RecordWeight = -1

// Spec is one entry of the configured list of servers. Specs are comparable.
type Spec struct {
	Lookup Lookup
	// Server is the server of a Static entry. Otherwise Addr is the name to look up ("host:port", or
	// "_service._proto.host" for SRV records), Weight and Zone (unless "") are those of each server found, and Name,
	// unless "", is a prefix of their names.
	Server route.Server
	// TLS: the lookup itself needs TLS. Only Nodes uses it.
	TLS bool
}

// entry returns what is looked up for s, in the form of a list of servers; "": nothing is.
func (s Spec) entry() string {
	if s.Lookup == Static {
		return ""
	}
	return s.Lookup.String() + s.Server.Addr
}

// servers returns the servers found for s.
func (s Spec) servers(found []target) []route.Server {
	list := make([]route.Server, len(found))
	for i, t := range found {
		list[i] = route.Server{
			Name: t.name, Addr: t.addr, Weight: s.Server.Weight, Zone: cmp.Or(s.Server.Zone, t.zone), Entry: s.entry(),
			Pool: s.Server.Pool,
		}
		if s.Server.Name != "" {
			list[i].Name = s.Server.Name + "/" + t.name
		}
		if s.Server.Weight == RecordWeight {
			list[i].Weight = t.weight
		}
	}
	return list
}

// defaultPort is memcached's port, which names omit.
const defaultPort = 11211

// recordName returns the name of the server of an SRV record; service is the name that was queried.
func recordName(service, host string, port uint16) string {
	name := host
	// domain is the queried name without the labels of service and protocol. The host may have a search domain appended
	// to it.
	_, domain, _ := strings.Cut(service, ".")
	_, domain, _ = strings.Cut(domain, ".")
	domain = canonical(domain)
	if label, rest, _ := strings.Cut(host, "."); rest == domain || strings.HasPrefix(rest, domain+".") {
		name = label
	}
	return serverName(name, strconv.Itoa(int(port)))
}

// canonical returns the canonical spelling of a DNS name.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// Resolver queries the DNS. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// NewResolver returns a Resolver for the DNS server at addr ("host:port"), or, if addr is "", for the system's.
func NewResolver(addr string) Resolver {
	r := &net.Resolver{PreferGo: true}
	if addr == "" {
		return r
	}
	var d net.Dialer
	r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, addr)
	}
	return r
}

const (
	// lookupTimeout bounds the time of all queries for one entry, including those for the addresses of its records. It
	// is the default timeout of resolv.conf for one server and one query.
	lookupTimeout = 5 * time.Second
	// lookupsAtOnce bounds the number of concurrent queries for one entry.
	lookupsAtOnce = 16
)

// target is a server in an answer.
type target struct {
	name   string // unique within the answer
	addr   string // "" if the host of a record could not be resolved
	weight int    // of the record, relative to the others; 1 for an address
	zone   string // of the endpoint's node; "": unknown
	absent int    // how many answers in a row have lacked it
}

// errEmpty means that a lookup found nothing.
var errEmpty = errors.New("no records")

// reply is what a lookup found.
type reply struct {
	targets []target // sorted by name
	// unresolved are errors of single records, by their hosts.
	unresolved map[string]error
	// version is that of the list, which grows with each change; 0: lists of this lookup have none.
	version uint64
	// wanted are servers that are to be there, although targets may lack them; asked for only if a known one is
	// missing.
	wanted []target
}

// asker is what lookups ask.
type asker struct {
	resolver Resolver
	// server is the DNS server that resolver asks; "": the system's, which the net package's errors always name.
	server string
	// secure returns the TLS configuration of a connection to host; nil: connections have no TLS.
	secure func(host string) *tls.Config
}

// lookUp asks for s, whose earlier answer is a. If its watch is not up to date, the DNS is asked. An error means that
// there is no answer.
func lookUp(ctx context.Context, by asker, s Spec, a *answer) (found reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	watched := false
	if a.watch != nil {
		if found.targets, watched = a.watch.targets(ctx, a.targets); watched && lacks(found.targets, a.targets) {
			found.wanted = a.watch.wanted(ctx, slices.Concat(found.targets, a.targets))
		}
	}
	switch {
	case watched:
	case s.Lookup == Nodes:
		found, err = lookUpNodes(ctx, by, s.Server.Addr)
	case s.Lookup == Service || s.Lookup == Endpoints:
		found.targets, found.unresolved, err = lookUpService(ctx, by.resolver, s.Server.Addr, a.targets)
	default:
		found.targets, err = lookUpAddresses(ctx, by.resolver, s)
	}
	for _, err := range slices.AppendSeq([]error{err}, maps.Values(found.unresolved)) {
		if e, ok := errors.AsType[*net.DNSError](err); ok && e.Server != "" {
			e.Server = cmp.Or(by.server, e.Server)
		}
	}
	switch e, ok := errors.AsType[*net.DNSError](err); {
	case ok && e.IsNotFound:
		return reply{}, fmt.Errorf("%w: %w", errEmpty, err)
	case err != nil:
		return reply{}, err
	case len(found.targets) == 0:
		return reply{}, errEmpty
	}
	slices.SortFunc(found.targets, func(a, b target) int { return cmp.Compare(a.name, b.name) })
	found.targets = slices.CompactFunc(found.targets, func(a, b target) bool { return a == b })
	return found, nil
}

func lookUpAddresses(ctx context.Context, r Resolver, s Spec) ([]target, error) {
	host, port, err := net.SplitHostPort(s.Server.Addr)
	if err != nil {
		return nil, err
	}
	addrs, err := r.LookupNetIP(ctx, networks[s.Lookup], host)
	if err != nil {
		return nil, err
	}
	found := make([]target, len(addrs))
	for i, a := range addrs {
		addr := net.JoinHostPort(a.Unmap().String(), port)
		found[i] = target{name: addr, addr: addr, weight: 1}
	}
	return found, nil
}

// lookUpService queries the SRV records, then the addresses of their hosts.
func lookUpService(ctx context.Context, r Resolver, name string, known []target) ([]target, map[string]error, error) {
	_, records, err := r.LookupSRV(ctx, "", "", name)
	if err != nil {
		return nil, nil, err
	}
	records = preferred(records)
	found := make([]target, len(records))
	failed := make([]error, len(records))
	var asking sync.WaitGroup
	slots := make(chan struct{}, lookupsAtOnce)
	for i, record := range records {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found[i], failed[i] = locate(ctx, r, name, record, known)
		})
	}
	asking.Wait()
	unresolved := make(map[string]error)
	for i, err := range failed {
		if err != nil {
			unresolved[canonical(records[i].Target)] = err
		}
	}
	for i, weight := range weights(records) {
		found[i].weight = weight
	}
	return found, unresolved, nil
}

// locate returns the target of record. If its host has several addresses, the target keeps its known address, or else
// gets the first one.
func locate(ctx context.Context, r Resolver, service string, record *net.SRV, known []target) (target, error) {
	host := canonical(record.Target)
	t := target{name: recordName(service, host, record.Port)}
	last := ""
	if i := slices.IndexFunc(known, func(k target) bool { return k.name == t.name }); i >= 0 {
		last = known[i].addr
	}
	addrs, err := r.LookupNetIP(ctx, "ip", record.Target)
	if err != nil || len(addrs) == 0 {
		t.addr = last
		return t, cmp.Or(err, errEmpty)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare) // IPv4 before IPv6
	for i, a := range addrs {
		if addr := net.JoinHostPort(a.String(), strconv.Itoa(int(record.Port))); i == 0 || addr == last {
			t.addr = addr
		}
	}
	return t, nil
}

// preferred returns the records with the best priority. The others are meant as a fallback, which is no use here: a
// server that is used only sometimes holds old values.
func preferred(records []*net.SRV) []*net.SRV {
	if len(records) == 0 {
		return nil
	}
	best := slices.MinFunc(records, func(a, b *net.SRV) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	return slices.DeleteFunc(slices.Clone(records), func(r *net.SRV) bool { return r.Priority != best })
}

// weights returns the records' weights divided by their greatest common divisor. A DNS server that gives each of n
// records the weight 100/n, such as that of Kubernetes, means equal weights, and n must not matter. A record with
// weight 0 gets weight 1.
func weights(records []*net.SRV) []int {
	list := make([]int, len(records))
	divisor := 0
	for i, r := range records {
		list[i] = int(r.Weight)
		for b := list[i]; b != 0; {
			divisor, b = b, divisor%b
		}
	}
	for i := range list {
		list[i] = max(1, list[i]/max(1, divisor))
	}
	return list
}
