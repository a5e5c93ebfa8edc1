package discover

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// maxNodes bounds the list of nodes, bytes: some 600 nodes with names as long as those of ElastiCache, whose
	// clusters have up to 60.
	maxNodes = 64 << 10
	// maxNodesLine bounds the other lines of an answer, bytes.
	maxNodesLine = 1 << 10
	// maxHost is the longest name of a host, bytes.
	maxHost = 253
)

// The requests for the list of nodes. ElastiCache before memcached 1.4.14 knows only the second. The first words of the
// answers differ, the rest is the same.
var nodesRequests = []struct{ request, answer string }{
	{"config get cluster\r\n", "CONFIG cluster 0 "},
	{"get AmazonElastiCache:cluster\r\n", "VALUE AmazonElastiCache:cluster 0 "},
}

// lookUpNodes asks the addresses of name, "host:port", one after the other, until one answers.
func lookUpNodes(ctx context.Context, by asker, name string) (reply, error) {
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return reply{}, err
	}
	addrs, err := by.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return reply{}, err
	}
	var failures []error
	for _, a := range addrs {
		found, err := askNodes(ctx, by, host, net.JoinHostPort(a.Unmap().String(), port))
		if err == nil {
			return found, nil
		}
		failures = append(failures, err)
	}
	return reply{}, errors.Join(failures...)
}

// askNodes asks the server at addr for the nodes of its cluster. host is the name in its certificate.
func askNodes(ctx context.Context, by asker, host, addr string) (found reply, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = conn.Close() }()
	// The end of ctx interrupts reads and writes.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if by.secure != nil {
		conn = tls.Client(conn, by.secure(host))
	}
	r := bufio.NewReaderSize(conn, maxNodesLine)
	var refusal error // of the first request
	for _, ask := range nodesRequests {
		if _, err = io.WriteString(conn, ask.request); err == nil {
			found, err = readNodes(r, ask.answer)
		}
		if _, refused := errors.AsType[errNoList](err); !refused {
			break
		}
		refusal = cmp.Or(refusal, err)
		err = refusal
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", addr, err)
	}
	return found, nil
}

// errNoList is the first line of an answer that is no list.
type errNoList string

func (e errNoList) Error() string {
	return fmt.Sprintf("the answer to `config get cluster` is %q; expected: a list of nodes, as from a configuration "+
		"endpoint", string(e))
}

// readNodes reads an answer whose first line begins with begin.
func readNodes(r *bufio.Reader, begin string) (reply, error) {
	line, err := readNodesLine(r)
	if err != nil {
		return reply{}, err
	}
	text, ok := strings.CutPrefix(line, begin)
	if !ok {
		return reply{}, errNoList(line)
	}
	size, err := strconv.ParseUint(text, 10, 31)
	if err != nil || size > maxNodes {
		return reply{}, fmt.Errorf("the list of nodes has the size %q; expected: 0 to %d", text, maxNodes)
	}
	list := make([]byte, size)
	if _, err := io.ReadFull(r, list); err != nil {
		return reply{}, fmt.Errorf("the list of nodes ends before its size of %d bytes: %w", size, err)
	}
	for _, want := range []string{"", "END"} {
		if line, err := readNodesLine(r); err != nil {
			return reply{}, err
		} else if line != want {
			return reply{}, fmt.Errorf("the list of nodes of %d bytes is followed by %q; expected: %q", size,
				line, want)
		}
	}
	return decodeNodes(string(list))
}

// readNodesLine reads a line, and returns it without its CRLF.
func readNodesLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	switch text, ended := strings.CutSuffix(string(line), "\r\n"); {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("a line of the answer is longer than %d bytes", maxNodesLine)
	case err != nil:
		return "", fmt.Errorf("the answer ends early: %w", err)
	case !ended:
		return "", fmt.Errorf("the line %q of the answer does not end in CR LF", line)
	default:
		return text, nil
	}
}

// decodeNodes decodes a list of nodes: a line with its version, and a line of the nodes with blanks between them. Each
// is host|address|port; the address may be missing.
func decodeNodes(list string) (found reply, err error) {
	version, rest, _ := strings.Cut(list, "\n")
	if found.version, err = strconv.ParseUint(version, 10, 64); err != nil {
		return reply{}, fmt.Errorf("the list of nodes has the version %q; expected: a number", version)
	}
	line, rest, ended := strings.Cut(rest, "\n")
	if !ended || rest != "" {
		return reply{}, errors.New("the list of nodes does not consist of two lines")
	}
	if line == "" {
		return reply{}, nil
	}
	known := make(map[string]bool)
	for text := range strings.SplitSeq(line, " ") {
		node, err := decodeNode(text)
		if err == nil && known[node.name] {
			err = errors.New("is listed twice")
		}
		if err != nil {
			return reply{}, fmt.Errorf("node %q %w", text, err)
		}
		known[node.name] = true
		found.targets = append(found.targets, node)
	}
	return found, nil
}

// decodeNode decodes a node. It is named by its host, which stays the same when the node is replaced.
func decodeNode(text string) (target, error) {
	host, rest, _ := strings.Cut(text, "|")
	address, port, ok := strings.Cut(rest, "|")
	if !ok {
		return target{}, errors.New("is not of the form host|address|port")
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return target{}, fmt.Errorf("has the port %q; expected: 1 to 65535", port)
	}
	port = strconv.FormatUint(number, 10)
	if address == "" {
		address = host
	} else if _, err := parseIP(address); err != nil {
		return target{}, fmt.Errorf("has the address %q; expected: an IP address, or none", address)
	}
	t := target{weight: 1}
	if t.addr, err = nodeAddr(address, port); err != nil {
		return target{}, err
	}
	if t.name, err = nodeAddr(host, port); err != nil {
		return target{}, err
	}
	if _, err := parseIP(host); err != nil {
		t.name = strings.TrimSuffix(t.name, ":"+strconv.Itoa(defaultPort))
	}
	return t, nil
}

// nodeAddr returns "host:port"; host is an IP address or a name.
func nodeAddr(host, port string) (string, error) {
	if ip, err := parseIP(host); err == nil {
		return net.JoinHostPort(ip, port), nil
	}
	if !isHost(host) {
		return "", fmt.Errorf("has the host %q; expected: an IP address, or a name of letters, digits, dots, - and _",
			host)
	}
	return net.JoinHostPort(canonical(host), port), nil
}

// parseIP returns the canonical spelling of an IP address.
func parseIP(text string) (string, error) {
	ip, err := netip.ParseAddr(text)
	if err == nil && ip.Zone() != "" {
		err = errors.New("an address with a zone")
	}
	return ip.Unmap().String(), err
}

// isHost reports whether text may be the name of a host.
func isHost(text string) bool {
	return len(text) <= maxHost && !strings.Contains("."+canonical(text)+".", "..") &&
		!strings.ContainsFunc(text, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' ||
				r == '.')
		})
}
