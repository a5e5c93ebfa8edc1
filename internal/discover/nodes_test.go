package discover_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/discover"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
	"mcmw/internal/secret"
)

// endpoint is a configuration endpoint whose answer a test sets.
type endpoint struct {
	*mctest.Script
	answer atomic.Pointer[string]
}

func startEndpoint(t *testing.T) *endpoint {
	e := new(endpoint)
	e.Script = mctest.StartScript(t, func(p *mctest.Peer) {
		answer := *e.answer.Load()
		if p.Expect("config get cluster\r\n") {
			p.Send(answer)
		}
		if strings.Contains(answer, "ERROR") && p.Expect("get AmazonElastiCache:cluster\r\n") {
			p.Send("END\r\n")
		}
	})
	return e
}

func (e *endpoint) sends(text string) { e.answer.Store(&text) }

// lists makes the endpoint answer with a list of nodes.
func (e *endpoint) lists(version int, nodes ...string) {
	e.sends(clusterConfig(fmt.Sprintf("%d\n%s\n", version, strings.Join(nodes, " "))))
}

func clusterConfig(list string) string {
	return fmt.Sprintf("CONFIG cluster 0 %d\r\n%s\r\nEND\r\n", len(list), list)
}

// spec returns the entry that asks e.
func (e *endpoint) spec() discover.Spec { return spec("cluster+" + e.Addr()) }

// withEndpoint is newFixture whose resolver knows the loopback address.
func withEndpoint(t *testing.T) (*fixture, *endpoint) {
	f := newFixture()
	f.addrs["127.0.0.1"] = []string{"127.0.0.1"}
	return f, startEndpoint(t)
}

// Nodes of a cluster, with the servers that they are.
const (
	node1, node2, node3 = "c.x.0001.cache.example|10.0.0.1|11211", "C.x.0002.cache.example|10.0.0.2|11211",
		"c.x.0003.cache.example|10.0.0.3|11212"
)

var (
	server1 = server("c.x.0001.cache.example", "10.0.0.1:11211")
	server2 = server("c.x.0002.cache.example", "10.0.0.2:11211")
	server3 = server("c.x.0003.cache.example:11212", "10.0.0.3:11212")
)

func TestNodesAreNamedByTheirHostsAndReachedByTheirAddresses(t *testing.T) {
	f, e := withEndpoint(t)
	// The published example of an answer, in its exact bytes.
	e.sends("CONFIG cluster 0 136\r\n12\nmyCluster.pc4ldq.0001.use1.cache.amazonaws.com|10.82.235.120|11211 " +
		"myCluster.pc4ldq.0002.use1.cache.amazonaws.com|10.80.249.27|11211\n\r\nEND\r\n")
	require.Equal(t, []route.Server{
		server("mycluster.pc4ldq.0001.use1.cache.amazonaws.com", "10.82.235.120:11211"),
		server("mycluster.pc4ldq.0002.use1.cache.amazonaws.com", "10.80.249.27:11211"),
	}, f.find(t, e.spec()))

	e.lists(13, node3, node1, "10.0.0.4|10.0.0.4|11211", "c.x.0005.cache.example||11211", "::1|::1|5")
	require.Equal(t, []route.Server{
		server("10.0.0.4:11211", "10.0.0.4:11211"), server("[::1]:5", "[::1]:5"),
		server1, server3, server("c.x.0005.cache.example", "c.x.0005.cache.example:11211"),
	}, f.find(t, e.spec()))
}

func TestANodeThatIsReplacedKeepsItsName(t *testing.T) {
	f, e := withEndpoint(t)
	e.lists(1, node1, node2)
	f.find(t, e.spec())
	e.lists(2, node1, "c.x.0002.cache.example|10.0.0.9|11211")
	require.Equal(t, []route.Server{server1, server(server2.Name, "10.0.0.9:11211")}, f.find(t, e.spec()))
}

func TestAListWithANewerVersionTakesItsMissingNodesOutAtOnceAndOneWithTheSameVersionDoesNot(t *testing.T) {
	f, e := withEndpoint(t)
	e.lists(7, node1, node2, node3)
	f.find(t, e.spec())
	e.lists(7, node1, node2)
	require.Equal(t, []route.Server{server1, server2, server3}, f.find(t, e.spec()),
		"the same version says nothing new")
	e.lists(8, node1, node2)
	require.Equal(t, []route.Server{server1, server2}, f.find(t, e.spec()))
}

func TestAListWithAnOlderVersionChangesNothingUntilSeveralInARowHaveIt(t *testing.T) {
	f, e := withEndpoint(t)
	e.lists(7, node1, node2)
	f.find(t, e.spec())
	e.lists(6, node1, node2, node3)
	for range 2 {
		require.Equal(t, []route.Server{server1, server2}, f.find(t, e.spec()))
		require.False(t, f.finder.Confirmed())
	}
	require.Contains(t, f.log.String(), "the list has version 6, which is older than version 7 of an earlier answer")
	require.Equal(t, []route.Server{server1, server2, server3}, f.find(t, e.spec()),
		"the third of them in a row: the versions began again")
	require.True(t, f.finder.Confirmed())
}

func TestNoAnswerAndAnEmptyListRemoveNoNode(t *testing.T) {
	f, e := withEndpoint(t)
	e.lists(7, node1, node2)
	f.find(t, e.spec())
	for _, answer := range []string{
		clusterConfig("8\n\n"), clusterConfig("8\n" + node1), "ERROR\r\n",
		"SERVER_ERROR out of memory\r\n", "",
	} {
		e.sends(answer)
		for range 4 {
			require.Equal(t, []route.Server{server1, server2}, f.find(t, e.spec()), answer)
		}
	}
	e.lists(7, node1, node2)
	require.Equal(t, []route.Server{server1, server2}, f.find(t, e.spec()))
	require.True(t, f.finder.Confirmed())
}

func TestAnEngineThatDoesNotKnowTheConfigCommandIsAskedForTheKeyInItsPlace(t *testing.T) {
	f := newFixture()
	f.addrs["127.0.0.1"] = []string{"127.0.0.1"}
	list := "3\n" + node1 + "\n"
	old := mctest.StartScript(t, func(p *mctest.Peer) {
		if p.Expect("config get cluster\r\n") {
			p.Send("ERROR\r\n")
		}
		if p.Expect("get AmazonElastiCache:cluster\r\n") {
			p.Send(fmt.Sprintf("VALUE AmazonElastiCache:cluster 0 %d\r\n%s\r\nEND\r\n", len(list), list))
		}
	})
	require.Equal(t, []route.Server{server1}, f.find(t, spec("cluster+"+old.Addr())))
}

func TestTheNextAddressOfAnEndpointIsAskedIfOneDoesNotAnswer(t *testing.T) {
	f, e := withEndpoint(t)
	e.lists(1, node1)
	_, port, _ := strings.Cut(e.Addr(), ":")
	f.addrs["c.cfg.cache.example"] = []string{"127.0.0.99", "127.0.0.1"}
	require.Equal(t, []route.Server{server1}, f.find(t, spec("cluster+c.cfg.cache.example:"+port)))
}

func TestAnErrorSaysWhatIsWrongWithAnAnswer(t *testing.T) {
	for answer, want := range map[string]string{
		"ERROR\r\n": "the answer to `config get cluster` is \"ERROR\"; expected: a " +
			"list of nodes, as from a configuration endpoint",
		"CONFIG cluster 0 99999\r\n":              `the list of nodes has the size "99999"; expected: 0 to 65536`,
		"CONFIG cluster 0 -1\r\n":                 `the list of nodes has the size "-1"; expected: 0 to 65536`,
		"CONFIG cluster 0 5\r\n1\n":               `the list of nodes ends before its size of 5 bytes: unexpected EOF`,
		"CONFIG cluster 0 3\r\n1\n\nEND\r\n":      `the list of nodes of 3 bytes is followed by "END"; expected: ""`,
		"CONFIG cluster 0 2\r\n1\n\nEND\r\n":      `the line "\n" of the answer does not end in CR LF`,
		"CONFIG cluster 0 3\r\n1\n\n\r\nSTAT\r\n": `the list of nodes of 3 bytes is followed by "STAT"; expected: "END"`,
		strings.Repeat("x", 2000):                 `a line of the answer is longer than 1024 bytes`,
		clusterConfig("-1\n\n"):                   `the list of nodes has the version "-1"; expected: a number`,
		clusterConfig("1\na|1.2.3.4|5"):           `the list of nodes does not consist of two lines`,
		clusterConfig("1\na|1.2.3.4|5\n\n"):       `the list of nodes does not consist of two lines`,
		clusterConfig("1\na|1.2.3.4\n"):           `node "a|1.2.3.4" is not of the form host|address|port`,
		clusterConfig("1\na|1.2.3.4|5 \n"):        `node "" is not of the form host|address|port`,
		clusterConfig("1\na|1.2.3|5\n"):           `node "a|1.2.3|5" has the address "1.2.3"; expected: an IP address, or none`,
		clusterConfig("1\na|1.2.3.4|0\n"):         `node "a|1.2.3.4|0" has the port "0"; expected: 1 to 65535`,
		clusterConfig("1\na|1.2.3.4|5|6\n"):       `node "a|1.2.3.4|5|6" has the port "5|6"; expected: 1 to 65535`,
		clusterConfig("1\na/b|1.2.3.4|5\n"):       `node "a/b|1.2.3.4|5" has the host "a/b"; expected: an IP address, or a name of letters, digits, dots, - and _`,
		clusterConfig("1\n||5\n"):                 `node "||5" has the host ""; expected: `,
		clusterConfig("1\na||5 A.|::1|5\n"):       `node "A.|::1|5" is listed twice`,
	} {
		f, e := withEndpoint(t)
		e.sends(answer)
		_, err := f.finder.Find(t.Context(), discover.Lookups{Specs: []discover.Spec{e.spec()}})
		require.ErrorContains(t, err, "cluster+"+e.Addr()+": "+e.Addr()+": ", answer)
		require.ErrorContains(t, err, want, answer)
	}
}

func TestAnEndpointIsAskedOverTLSAndMustShowACertificateForItsName(t *testing.T) {
	ca := mctest.NewCA(t)
	certificate, err := tls.LoadX509KeyPair(ca.Issue())
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && line == "config get cluster\r\n" {
				_, _ = io.WriteString(c, clusterConfig("1\n"+node1+"\n"))
			}
			_ = c.Close()
		}
	})
	t.Cleanup(served.Wait)
	t.Cleanup(func() { _ = listener.Close() })

	f := newFixture()
	f.addrs["127.0.0.1"] = []string{"127.0.0.1"}
	s := spec("cluster+" + listener.Addr().String())
	s.TLS = true
	find := func(name string) ([]route.Server, error) {
		return f.finder.Find(t.Context(),
			discover.Lookups{Specs: []discover.Spec{s}, Certificates: secret.ClientFiles{CA: ca.File, Name: name}})
	}
	_, err = find("elsewhere.example")
	require.ErrorContains(t, err, "elsewhere.example")
	found, err := find("")
	require.NoError(t, err)
	require.Equal(t, []route.Server{server1}, withoutEntries(found))
}
