package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const unixPrefix = "unix:"

// noTLSPrefix exempts an address to listen on from TLS, as it does in memcached.
const noTLSPrefix = "notls:"

// maxUnixPath is the longest path of a unix socket, bytes: Linux's sun_path holds 108 with the closing zero.
const maxUnixPath = 107

// parseUnix checks an address that starts with "unix:". Its path must not contain the separators of lists and servers.
func parseUnix(text string) error {
	switch path := strings.TrimPrefix(text, unixPrefix); {
	case path == "":
		return errors.New("has no path after its prefix")
	case len(path) > maxUnixPath:
		return fmt.Errorf("has a path of %d bytes; a unix socket's path has at most %d", len(path), maxUnixPath)
	default:
		for _, r := range path {
			if r <= ' ' || r == ',' || r == '*' {
				return fmt.Errorf("has %q in its path; space, comma and * are not allowed", r)
			}
		}
	}
	return nil
}

// splitAddress splits "host", "host:port", "[v6]:port" or a bare IPv6 address. Hosts that differ only in how they are
// spelt are returned as the same text. The port is "" if text has none.
func splitAddress(text string) (host, port string, err error) {
	if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
		return ip.Unmap().String(), "", nil
	}
	switch strings.Count(text, ":") {
	case 0:
		host = text
		if _, err := strconv.Atoi(text); err == nil {
			return "", "", errors.New("is a number, and not a host")
		}
	case 1:
		host, port, _ = strings.Cut(text, ":")
		if port == "" {
			return "", "", errors.New("has no port after the colon")
		}
	default:
		inner, rest, closed := strings.Cut(strings.TrimPrefix(text, "["), "]")
		if !strings.HasPrefix(text, "[") || !closed {
			return "", "", errors.New("has more than one colon; an IPv6 address with a port is written [address]:port")
		}
		ip, ipErr := netip.ParseAddr(inner)
		if ipErr != nil {
			return "", "", fmt.Errorf("has %q in brackets, which is not an IPv6 address", inner)
		}
		host = ip.Unmap().String()
		if rest != "" {
			if !strings.HasPrefix(rest, ":") || rest == ":" {
				return "", "", errors.New("has no :port after the bracket")
			}
			port = rest[1:]
		}
		return host, port, nil
	}
	return strings.ToLower(host), port, checkHost(host)
}

// checkHost refuses a text that is neither a host name nor an IPv4 address. It accepts "", which the caller has to
// check.
func checkHost(host string) error {
	for _, r := range host {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
		default:
			return fmt.Errorf("has %q in its host name; only letters, digits, '-', '_' and '.' are allowed", r)
		}
	}
	return nil
}

// checkPort refuses a text that is not a port number in its shortest form, or one below least.
func checkPort(text string, least int) error {
	if port, err := strconv.Atoi(text); err != nil || port < least || port > 65535 || strconv.Itoa(port) != text {
		return fmt.Errorf("has the port %q; a port is a number from %d to 65535", text, least)
	}
	return nil
}

// parseListen checks one address to listen on, as the operator wrote it.
func parseListen(text string) error {
	if address, ok := strings.CutPrefix(text, noTLSPrefix); ok {
		text = address
		if strings.HasPrefix(text, unixPrefix) {
			return errors.New("is a unix socket, which never has TLS")
		}
	}
	if strings.HasPrefix(text, unixPrefix) {
		return parseUnix(text)
	}
	if text == "" {
		return errors.New("is empty")
	}
	return checkAddress(text, false, false, 0)
}

// checkAddress checks an address that must have a host, or a port, if that is needed. The port must be at least least.
func checkAddress(text string, needsHost, needsPort bool, least int) error {
	host, port, err := splitAddress(text)
	switch {
	case err != nil:
		return err
	case needsHost && host == "":
		return errors.New("has no host")
	case port == "" && needsPort:
		return errors.New("has no port")
	case port == "":
		return nil
	}
	return checkPort(port, least)
}

// completeListen returns the address, with the default port if it has none. The text has passed parseListen.
func completeListen(text string, defaultPort int) string {
	if address, ok := strings.CutPrefix(text, noTLSPrefix); ok {
		return noTLSPrefix + completeListen(address, defaultPort)
	}
	if strings.HasPrefix(text, unixPrefix) {
		return text
	}
	host, port, _ := splitAddress(text)
	return net.JoinHostPort(host, cmp.Or(port, strconv.Itoa(defaultPort)))
}

// checkAnnounced checks an address that clients learn.
func checkAnnounced(text string) error { return checkAddress(text, true, true, 1) }

// parseAdmin checks the address of the admin server.
func parseAdmin(text string) error {
	if strings.HasPrefix(text, unixPrefix) {
		return errors.New("is a unix socket; the admin server speaks HTTP over TCP only")
	}
	return checkAddress(text, false, true, 0)
}

// parseResolver checks the address of a DNS server.
func parseResolver(text string) error {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return errors.New("is not an IP address with a port")
	}
	return checkPort(strconv.Itoa(int(addr.Port())), 1)
}
