package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"mcmw/internal/route"
)

// DefaultServerPort is memcached's.
const DefaultServerPort = 11211

const (
	// maxWeight bounds a server's weight; it leaves room for weights that are megabytes of memory.
	maxWeight = 1_000_000
	// maxServerName bounds a server's name, bytes: names stand in replies, logs and metrics.
	maxServerName = 255
)

const serverForms = "[name=]host[:port][*weight], [name=]unix:/path[*weight], or twemproxy's host:port:weight [name]"

// parseServer reads one server from its text form. Its name is the address as written unless the text gives one.
func parseServer(text string) (route.Server, error) {
	if address, name, ok := strings.Cut(strings.TrimSpace(text), " "); ok {
		return parseTwemproxy(address, strings.TrimSpace(name))
	}
	rest, name := text, ""
	if !strings.HasPrefix(text, unixPrefix) {
		if before, after, ok := strings.Cut(text, "="); ok {
			name, rest = before, after
			if name == "" {
				return route.Server{}, errors.New("has no name before the =")
			}
		}
	}
	weight := 1
	if i := strings.LastIndexByte(rest, '*'); i >= 0 {
		var err error
		if weight, err = parseWeight(rest[i+1:]); err != nil {
			return route.Server{}, err
		}
		rest = rest[:i]
	}
	if name == "" && isTwemproxy(rest) {
		return parseTwemproxy(text, "")
	}
	return makeServer(name, rest, weight)
}

// isTwemproxy tells host:port:weight and /path:weight from the other forms: no other has two colons outside an IPv6
// address, or starts with a slash.
func isTwemproxy(text string) bool {
	if strings.HasPrefix(text, unixPrefix) || strings.HasPrefix(text, "[") {
		return false
	}
	return strings.HasPrefix(text, "/") || strings.Count(text, ":") == 2 && !strings.Contains(text, "::")
}

// parseTwemproxy reads a server as it stands in twemproxy's configuration: "host:port:weight" or "/path:weight", and
// a name, which may be "".
func parseTwemproxy(text, name string) (route.Server, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return route.Server{}, errors.New("has a space in it, but is not twemproxy's \"host:port:weight name\"")
	}
	weight, err := parseWeight(text[i+1:])
	if err != nil {
		return route.Server{}, err
	}
	address := text[:i]
	if strings.HasPrefix(address, "/") {
		address = unixPrefix + address
	}
	return makeServer(name, address, weight)
}

func parseWeight(text string) (int, error) {
	weight, err := strconv.Atoi(text)
	if err != nil || weight < 1 || weight > maxWeight {
		return 0, fmt.Errorf("has the weight %q; a weight is a number from 1 to %d", text, maxWeight)
	}
	return weight, nil
}

// makeServer checks the parts of a server, however they were written, and completes its address.
func makeServer(name, address string, weight int) (route.Server, error) {
	s := route.Server{Name: name, Addr: address, Weight: weight}
	if s.Name == "" {
		s.Name = address
	}
	if strings.HasPrefix(address, unixPrefix) {
		if err := parseUnix(address); err != nil {
			return route.Server{}, err
		}
		return s, checkServerName(s.Name)
	}
	host, port, err := splitAddress(address)
	if err != nil {
		return route.Server{}, err
	}
	if host == "" {
		return route.Server{}, errors.New("has no host")
	}
	if port == "" {
		port = strconv.Itoa(DefaultServerPort)
	}
	if _, err := parsePort(port, 1); err != nil {
		return route.Server{}, err
	}
	s.Addr = net.JoinHostPort(host, port)
	return s, checkServerName(s.Name)
}

func checkServerName(name string) error {
	if len(name) > maxServerName {
		return fmt.Errorf("has a name of %d bytes; a name has at most %d", len(name), maxServerName)
	}
	for _, r := range name {
		if r <= ' ' || r > '~' || r == ',' || r == '=' || r == '*' {
			return fmt.Errorf("has %q in its name; printable ASCII without space, comma, = and * may stand there", r)
		}
	}
	return nil
}

// formatServer is the inverse of parseServer, in its shortest form.
func formatServer(s route.Server) string {
	text := s.Name
	if short, err := parseServer(s.Name); err != nil || short.Addr != s.Addr {
		text = s.Name + "=" + s.Addr
	}
	if s.Weight > 1 {
		text += "*" + strconv.Itoa(s.Weight)
	}
	return text
}
