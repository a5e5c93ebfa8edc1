package mctest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mcmw/internal/faulty"
)

// maxServerlessGet is the length of the lines of get and gets above which ElastiCache Serverless refuses them, bytes.
const maxServerlessGet = 16 << 10

// StartServerless starts a server that refuses what ElastiCache Serverless refuses by its documentation, in front of
// the memcached at target: connections without TLS, a delayed flush_all, me, commands for the engine such as
// lru_crawler, stats with an argument other than reset, and long lines of get. Its certificate is of ca. It ends with
// the test.
//
// It replaces the line of a refused request by one that memcached refuses with an error of the same kind, so that
// replies stay in order.
func StartServerless(t testing.TB, ca *CA, target string) *faulty.Server {
	t.Helper()
	config := ca.Server()
	server, err := faulty.Start(func(_ int, conn net.Conn) {
		client := tls.Server(conn, config)
		engine, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		var replies sync.WaitGroup
		replies.Go(func() {
			_, _ = io.Copy(client, engine)
			_ = client.Close()
		})
		defer replies.Wait()
		defer func() { _ = engine.Close() }()
		for r := bufio.NewReader(client); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if _, err := io.WriteString(engine, serverlessLine(line)); err != nil {
				return
			}
			if _, err := io.CopyN(engine, r, blockSize(line)); err != nil {
				return
			}
		}
	})
	if err != nil {
		t.Fatalf("serverless: %v", err)
	}
	t.Cleanup(server.Stop)
	return server
}

// serverlessLine returns what memcached gets in place of line.
func serverlessLine(line string) string {
	const unknown, refused = "unknown\r\n", "touch k x\r\n" // get ERROR and CLIENT_ERROR
	words := strings.Fields(line)
	if len(words) == 0 {
		return line
	}
	switch words[0] {
	case "me", "verbosity", "watch", "lru", "lru_crawler", "slabs", "cache_memlimit":
		return unknown
	case "stats":
		if len(words) > 1 && words[1] != "reset" {
			return unknown
		}
	case "flush_all":
		if len(words) > 1 && words[1] != "0" && words[1] != "noreply" {
			return refused
		}
	case "get", "gets":
		if len(line) > maxServerlessGet {
			return refused
		}
	}
	return line
}

// blockSize returns the size of the data block after a line of a request, with its line end.
func blockSize(line string) int64 {
	words := strings.Fields(line)
	at := 0
	switch {
	case len(words) > 2 && words[0] == "ms":
		at = 2
	case len(words) > 4 && strings.Contains(" set add replace append prepend cas ", " "+words[0]+" "):
		at = 4
	default:
		return 0
	}
	size, err := strconv.ParseInt(words[at], 10, 64)
	if err != nil {
		return 0
	}
	return size + int64(len("\r\n"))
}
