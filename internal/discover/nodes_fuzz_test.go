package discover

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
)

// FuzzListsOfNodes: an answer is refused, or is a list whose servers have distinct names and addresses to connect to,
// and reads the same when it is written again. The part that follows an answer is left to the next one.
func FuzzListsOfNodes(f *testing.F) {
	for _, list := range []string{
		"12\na.b.0001.c|10.0.0.1|11211 a.b.0002.c|10.0.0.2|11211\n", "1\n10.0.0.1|10.0.0.1|11211\n", "1\na||5\n",
		"1\n::1|::ffff:1.2.3.4|65535\n",
		"1\n\n", "18446744073709551616\na|1.2.3.4|5\n", "1\na|1.2.3.4|5 a|1.2.3.5|5\n",
	} {
		f.Add(fmt.Sprintf("CONFIG cluster 0 %d\r\n%s\r\nEND\r\n", len(list), list))
	}
	f.Add("CONFIG cluster 0 3\r\n1\n\n\r\nEND\r\nnext")
	f.Add("CONFIG cluster 0 65536\r\n")
	f.Add("CONFIG cluster 0 +1\r\n1\r\nEND\r\n")
	f.Fuzz(func(t *testing.T, answer string) {
		read := func(answer string) (reply, error) {
			r := bufio.NewReaderSize(strings.NewReader(answer+"next"), maxNodesLine)
			found, err := readNodes(r, nodesRequests[0].answer)
			if rest, _ := io.ReadAll(r); err == nil {
				answered, ok := strings.CutSuffix(answer+"next", string(rest))
				if !ok || !strings.HasSuffix(answered, "\r\nEND\r\n") || !strings.HasSuffix(string(rest), "next") {
					t.Fatalf("%q: the next answer is %q", answer, rest)
				}
			}
			return found, err
		}
		found, err := read(answer)
		if err != nil {
			return
		}
		names, nodes := map[string]bool{}, []string{}
		for _, n := range found.targets {
			if n.name == "" || names[n.name] {
				t.Fatalf("%q: a second node with the name %q", answer, n.name)
			}
			names[n.name] = true
			address, port := n.addr[:strings.LastIndexByte(n.addr, ':')], n.addr[strings.LastIndexByte(n.addr, ':')+1:]
			address = strings.Trim(address, "[]")
			host := strings.Trim(strings.TrimSuffix(n.name, ":"+port), "[]")
			if _, err := netip.ParseAddr(address); err != nil {
				if host != address {
					t.Fatalf("%q: node %q has the address %q", answer, n.name, n.addr)
				}
				address = ""
			}
			nodes = append(nodes, host+"|"+address+"|"+port)
		}
		list := fmt.Sprintf("%d\n%s\n", found.version, strings.Join(nodes, " "))
		if len(list) > maxNodes {
			return // names without addresses are written with them
		}
		again, err := read(fmt.Sprintf("CONFIG cluster 0 %d\r\n%s\r\nEND\r\n", len(list), list))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(found) {
			t.Fatalf("%q: %v, and written again as %q: %v, %v", answer, found, list, again, err)
		}
	})
}
