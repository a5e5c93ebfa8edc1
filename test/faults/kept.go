package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"

	"mcmw/test/history"
)

// keptKeys is the number of keys that are stored before the fault, and that nobody writes.
const keptKeys = 2000

// leastKept is the share of the kept keys that must be found at the end where a server kept what it held.
const leastKept = 0.99

// Kept says how many of the keys stored before the fault were found at the end.
type Kept struct {
	Of    int `json:"of"`
	Found int `json:"found"`
}

// keep stores the kept keys at addr.
func keep(addr string) error {
	stored := 0
	request := func(i int) string { return fmt.Sprintf("set kept-%d 0 0 4\r\nkept\r\n", i) }
	err := eachKept(addr, request, func(line string) {
		if line == "STORED" {
			stored++
		}
	})
	if err == nil && stored < keptKeys {
		err = fmt.Errorf("%d of %d keys were stored", stored, keptKeys)
	}
	return err
}

// countKept reads the kept keys from each of addrs, and judges how many are found if must is true.
func (r *Result) countKept(addrs []string, must bool) {
	r.Kept = new(Kept)
	for _, addr := range addrs {
		r.Kept.Of += keptKeys
		request := func(i int) string { return fmt.Sprintf("mg kept-%d\r\n", i) }
		err := eachKept(addr, request, func(line string) {
			if line == "HD" {
				r.Kept.Found++
			}
		})
		if err != nil {
			r.breaks("reading the kept keys from %s: %v", addr, err)
		}
	}
	if must && float64(r.Kept.Found) < leastKept*float64(r.Kept.Of) {
		r.breaks("%d of %d kept keys were found, though a server held them all", r.Kept.Found, r.Kept.Of)
	}
}

// eachKept sends a request for each kept key, and calls do with the line that answers it.
func eachKept(addr string, request func(i int) string, do func(line string)) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(history.AnswerWithin))
	in := bufio.NewReader(conn)
	for i := range keptKeys {
		if _, err := conn.Write([]byte(request(i))); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		do(strings.TrimRight(line, "\r\n"))
	}
	return nil
}
