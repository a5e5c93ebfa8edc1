package discover

import (
	"cmp"
	"strconv"
	"strings"

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
