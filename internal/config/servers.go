package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/discover"
	"mcmw/internal/route"
)

// DefaultServerPort is memcached's.
const DefaultServerPort = 11211

const (
	// maxWeight bounds a server's weight; it is large enough for weights in megabytes of memory.
	maxWeight = 1_000_000
	// maxServerName bounds a server's name, bytes: names appear in replies, logs and metrics.
	maxServerName = 255
)

const serverForms = "[name=]host[:port][*weight][@zone], [name=]unix:/path[*weight], twemproxy's host:port:weight " +
	"[name], " +
	"or names to look up: [name=]dns+host[:port][*weight][@zone] (also dns4+ and dns6+), " +
	"[name=]srv+_service._proto.host[*weight|*record][@zone], " +
	"[name=]k8s+_port._proto.service.namespace.svc[.domain][*weight][@zone], " +
	"or a configuration endpoint: [name=]cluster+host[:port][*weight][@zone]"

// wordRecord is the weight that stands for the weight of each SRV record.
const wordRecord = "record"

// parseServer reads one entry of the list of servers from its text form. A server without a name is named by its
// address as written.
func parseServer(text string) (spec discover.Spec, err error) {
	if address, name, ok := strings.Cut(strings.TrimSpace(text), " "); ok {
		return parseTwemproxy(address, strings.TrimSpace(name))
	}
	rest, name, zone, weight := text, "", "", 1
	if !strings.HasPrefix(text, unixPrefix) {
		if before, after, ok := strings.Cut(text, "="); ok {
			name, rest = before, after
			if name == "" {
				return spec, errors.New("has no name before the =")
			}
		}
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 && !strings.HasPrefix(rest, unixPrefix) {
		rest, zone = rest[:i], rest[i+1:]
		if err := checkZone(zone); err != nil {
			return spec, err
		}
	}
	if i := strings.LastIndexByte(rest, '*'); i >= 0 {
		if weight, err = parseWeight(rest[i+1:]); err != nil {
			return spec, err
		}
		rest = rest[:i]
	}
	if name == "" && isTwemproxy(rest) {
		return parseTwemproxy(text, "")
	}
	return makeSpec(name, rest, weight, zone)
}

// serverProperties are those of a server in the file.
var serverProperties = []property{{key: "name"}, {key: "address"}, {key: "weight"}, {key: "zone"}}

// parseServerMapping reads a server that the file gives as a mapping with serverProperties.
func parseServerMapping(n *yaml.Node) (spec discover.Spec, err error) {
	texts, err := readTexts(n, serverProperties)
	if err != nil {
		return spec, err
	}
	if texts["address"] == "" {
		return spec, errors.New("has no key \"address\"")
	}
	weight, err := parseWeight(cmp.Or(texts["weight"], "1"))
	if zone := texts["zone"]; err == nil && zone != "" {
		err = checkZone(zone)
	}
	if err != nil {
		return spec, err
	}
	return makeSpec(texts["name"], texts["address"], weight, texts["zone"])
}

// isTwemproxy reports whether text is host:port:weight or /path:weight. No other form has two colons outside an IPv6
// address or starts with a slash.
func isTwemproxy(text string) bool {
	if strings.HasPrefix(text, unixPrefix) || strings.HasPrefix(text, "[") {
		return false
	}
	return strings.HasPrefix(text, "/") || strings.Count(text, ":") == 2 && !strings.Contains(text, "::")
}

// parseTwemproxy parses a server in the format of twemproxy's configuration, "host:port:weight" or "/path:weight". name
// may be "".
func parseTwemproxy(text, name string) (discover.Spec, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return discover.Spec{}, errors.New("has a space in it, but is not twemproxy's \"host:port:weight name\"")
	}
	weight, err := parseWeight(text[i+1:])
	if err != nil {
		return discover.Spec{}, err
	}
	address := text[:i]
	if strings.HasPrefix(address, "/") {
		address = unixPrefix + address
	}
	return makeSpec(name, address, weight, "")
}

// parseWeight parses a weight: a number, or the word for discover.RecordWeight.
func parseWeight(text string) (int, error) {
	if text == wordRecord {
		return discover.RecordWeight, nil
	}
	weight, err := strconv.Atoi(text)
	if err != nil || weight < 1 || weight > maxWeight {
		return 0, fmt.Errorf("has the weight %q; a weight is a number from 1 to %d", text, maxWeight)
	}
	return weight, nil
}

// labelForm matches the value of a Kubernetes label. Zones have this form, because a node's zone is one, and so have
// the names of pools, which are labels of metrics.
const (
	labelForm  = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
	labelWords = "1 to 63 letters and digits, with -, _ and . between"
)

var labelPattern = regexp.MustCompile(pattern(labelForm))

// isLabel returns a check that refuses a text that does not match labelForm, with the text problem.
func isLabel(problem string) func(string) error {
	return func(s string) error {
		if !labelPattern.MatchString(s) {
			return errors.New(problem)
		}
		return nil
	}
}

// checkZone refuses a server's zone that is not a zone.
func checkZone(zone string) error {
	return isLabel(fmt.Sprintf("has the zone %q; a zone is %s", zone, labelWords))(zone)
}

// makeSpec checks the parts of an entry, whatever its format, and completes its address.
func makeSpec(name, address string, weight int, zone string) (s discover.Spec, err error) {
	lookup, host := discover.CutLookup(address)
	if weight == discover.RecordWeight && lookup != discover.Service {
		return s, fmt.Errorf("has the weight %q, which only %s accepts", wordRecord, discover.Service)
	}
	s = discover.Spec{Lookup: lookup, Server: route.Server{Name: name, Addr: host, Weight: weight, Zone: zone}}
	if lookup == discover.Static && name == "" {
		s.Server.Name = address
	}
	if err := checkServerName(s.Server.Name); err != nil {
		return s, err
	}
	isUnix := strings.HasPrefix(host, unixPrefix)
	switch {
	case lookup == discover.Service || lookup == discover.Endpoints:
		return s, checkService(lookup, host)
	case isUnix && lookup != discover.Static:
		return s, errors.New("is a unix socket, which has no name to look up")
	case isUnix && zone != "":
		return s, errors.New("is a unix socket, which has no zone")
	case isUnix:
		return s, parseUnix(host)
	}
	host, port, err := splitAddress(host)
	port = cmp.Or(port, strconv.Itoa(DefaultServerPort))
	if err = cmp.Or(err, checkPort(port, 1)); err != nil {
		return s, err
	}
	s.Server.Addr = net.JoinHostPort(host, port)
	switch _, noIP := netip.ParseAddr(host); {
	case lookup == discover.Nodes && noIP == nil:
	case lookup != discover.Static:
		err = checkLookedUp(host)
	case host == "":
		err = errors.New("has no host")
	}
	return s, err
}

// The longest DNS name, and the longest label, bytes.
const (
	maxDNSName  = 253
	maxDNSLabel = 63
)

// checkLookedUp refuses a host name that cannot be looked up.
func checkLookedUp(host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return fmt.Errorf("has the address %s where a name to look up is expected", host)
	}
	name := strings.TrimSuffix(host, ".")
	switch err := checkHost(host); {
	case err != nil:
		return err
	case name == "":
		return errors.New("has no host")
	case len(name) > maxDNSName:
		return fmt.Errorf("has a name of %d bytes to look up; a name has at most %d", len(name), maxDNSName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxDNSLabel {
			return fmt.Errorf("has the label %q in the name to look up; a label has 1 to %d bytes", label, maxDNSLabel)
		}
	}
	return nil
}

// checkService refuses a name that cannot have SRV records or, for Endpoints, cannot be a service of Kubernetes.
func checkService(lookup discover.Lookup, name string) error {
	if strings.Contains(name, ":") {
		return errors.New("has a port; SRV records have their own")
	}
	if _, ok := discover.ParseService(name); lookup == discover.Endpoints && !ok {
		return errors.New("is not of the form k8s+_port._proto.service.namespace.svc[.domain]")
	}
	labels := strings.SplitN(strings.TrimSuffix(name, "."), ".", 3)
	if len(labels) < 3 || len(labels[0]) < 2 || labels[0][0] != '_' || len(labels[1]) < 2 || labels[1][0] != '_' {
		return errors.New("is not of the form srv+_service._proto.host")
	}
	return checkLookedUp(name)
}

func checkServerName(name string) error {
	if len(name) > maxServerName {
		return fmt.Errorf("has a name of %d bytes; a name has at most %d", len(name), maxServerName)
	}
	for _, r := range name {
		if r <= ' ' || r > '~' || r == ',' || r == '=' || r == '*' {
			return fmt.Errorf("has %q in its name; printable ASCII without space, comma, = and * is allowed", r)
		}
	}
	return nil
}

// formatServer is the inverse of parseServer, in its shortest form.
func formatServer(s discover.Spec) string {
	address := s.Lookup.String() + s.Server.Addr
	text := address
	if s.Lookup == discover.Static {
		text = s.Server.Name
	}
	if short, err := parseServer(text); s.Server.Name != "" &&
		(err != nil || short.Server.Addr != s.Server.Addr || short.Server.Name != s.Server.Name) {
		text = s.Server.Name + "=" + address
	}
	switch {
	case s.Server.Weight == discover.RecordWeight:
		text += "*" + wordRecord
	case s.Server.Weight > 1:
		text += "*" + strconv.Itoa(s.Server.Weight)
	}
	if s.Server.Zone != "" {
		text += "@" + s.Server.Zone
	}
	return text
}
