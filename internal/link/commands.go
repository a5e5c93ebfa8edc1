package link

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/protocol"
)

// do sends one meta command and returns its reply and the value.
func (l *Link) do(op protocol.Op, codes ...string) (r Reply, value []byte, err error) {
	if err := l.send(op.Bytes()); err != nil {
		return r, nil, err
	}
	line, err := l.line()
	if err != nil {
		return r, nil, err
	}
	r, err = decode(&op, line)
	switch {
	case err != nil:
		return r, nil, err
	case !slices.Contains(codes, r.Code), r.Size > maxRecord:
		return r, nil, Unexpected(r.Line)
	case !r.HasValue():
		return r, nil, nil
	}
	room := bytes.NewBuffer(make([]byte, 0, r.Size))
	err = l.value(room, r.Size)
	return r, room.Bytes(), err
}

// Get returns the value of key and its cas; nil: there is none. A server without cas (-C) tells 0.
func (l *Link) Get(key string) (value []byte, cas uint64, err error) {
	r, value, err := l.do(Key(key).Ask("vc"), "VA", "EN")
	return value, r.CAS, err
}

// Set stores value under key for the time that it lives, rounded up to whole seconds; 0: until it is evicted.
func (l *Link) Set(key string, value []byte, lives time.Duration) error {
	_, err := l.store(Key(key).Meta('s', ""), value, lives, "HD")
	return err
}

// Add is Set, unless the server holds key. It returns false if it does.
func (l *Link) Add(key string, value []byte, lives time.Duration) (added bool, err error) {
	op := Key(key).Meta('s', "M")
	op.Mode = 'E'
	return l.store(op, value, lives, "HD", "NS")
}

// Swap replaces the value of key if it has the given cas. It returns false if somebody else has changed it, or if it is
// gone.
func (l *Link) Swap(key string, value []byte, cas uint64) (swapped bool, err error) {
	op := Key(key).Meta('s', "C")
	op.CAS = cas
	return l.store(op, value, 0, "HD", "EX", "NF")
}

func (l *Link) store(op protocol.Op, value []byte, lives time.Duration, codes ...string) (stored bool, err error) {
	op.Data = slices.Concat(value, []byte(protocol.CRLF))
	if lives > 0 {
		op.Expiry, op.Fields = int32((lives+time.Second-1)/time.Second), op.Fields|protocol.FieldsOf("T")
	}
	r, _, err := l.do(op, codes...)
	return r.Code == "HD", err
}

// Delete deletes key, if the server holds it.
func (l *Link) Delete(key string) error {
	_, _, err := l.do(Key(key).Meta('d', ""), "HD", "NF")
	return err
}

// Cut deletes key if its item has the given cas. It returns false if it has another one, or if it is gone.
func (l *Link) Cut(key string, cas uint64) (deleted bool, err error) {
	r, _, err := l.do(Key(key).Cut(cas), "HD", "EX", "NF")
	return r.Code == "HD", err
}

// DeleteAll deletes the keys that the server holds.
func (l *Link) DeleteAll(keys iter.Seq[string]) error {
	requests := func(yield func(protocol.Op) bool) {
		for key := range keys {
			op := Key(key).Meta('d', "")
			if !yield(op.Deletion()) {
				return
			}
		}
	}
	return l.pipeline(requests, func(*protocol.Op) error {
		_, err := l.want("DELETED", "NOT_FOUND", "HD", "NF")
		return err
	})
}

// Expect sends request, a line that it ends, and returns an error if the reply does not consist of these lines.
func (l *Link) Expect(request string, reply ...string) error {
	if err := l.send([]byte(request + protocol.CRLF)); err != nil {
		return err
	}
	command, _, _ := strings.Cut(request, " ")
	for _, expected := range reply {
		switch line, err := l.line(); {
		case err != nil:
			return fmt.Errorf("no reply to %s: %w", command, err)
		case string(line) != expected:
			return fmt.Errorf("unexpected reply to %s: %q; expected %q", command, line, expected)
		}
	}
	return nil
}

// Version returns the server's version, which also shows whether it serves.
func (l *Link) Version() (string, error) {
	if err := l.send([]byte(fence)); err != nil {
		return "", err
	}
	return l.want("VERSION ")
}

// Flush deletes everything that the server holds, and stores the items under the keys in keep again, which expire when
// they would have. Each is missing until the server has executed what came with the flush.
func (l *Link) Flush(keep ...string) error {
	requests := [][]byte{[]byte("flush_all\r\n")}
	for _, key := range keep {
		r, value, err := l.do(Key(key).Ask("vt"), "VA", "EN")
		if _, unexpected := errors.AsType[Unexpected](err); unexpected {
			break // it does not know the meta commands, so there is nothing to keep
		}
		if err != nil {
			return err
		}
		if r.Held {
			op := Key(key).Meta('s', "TM")
			op.Expiry, op.Mode, op.Data = int32(max(r.TTL, 1)), 'E', append(value, protocol.CRLF...)
			requests = append(requests, op.Bytes())
		}
	}
	if err := l.send(requests...); err != nil {
		return err
	}
	_, err := l.want("OK")
	for range requests[1:] {
		if err == nil {
			_, err = l.want("HD", "NS", "SERVER_ERROR")
		}
	}
	return err
}

// mostStats is more than any memcached has statistics.
const mostStats = 10_000

// Stats returns those of the server's statistics that have one of these names. group is "" for the general ones.
func (l *Link) Stats(group string, names ...string) (map[string]uint64, error) {
	if err := l.send([]byte(strings.TrimSuffix("stats "+group, " ") + protocol.CRLF)); err != nil {
		return nil, err
	}
	values := map[string]uint64{}
	for range mostStats {
		line, err := l.line()
		if err != nil || string(line) == "END" {
			return values, err
		}
		rest, ok := strings.CutPrefix(string(line), "STAT ")
		if !ok {
			return nil, Unexpected(line)
		}
		if name, value, _ := strings.Cut(rest, " "); slices.Contains(names, name) {
			if values[name], err = strconv.ParseUint(value, 10, 64); err != nil {
				return nil, fmt.Errorf("unexpected %s %q: %w", name, value, err)
			}
		}
	}
	return nil, fmt.Errorf("the server sends more than %d statistics", mostStats)
}

// List calls each for every item that the server holds, until each returns an error. The item is valid during the call.
// form is the command's argument, hash or all. refused is the server's reply if it refuses to list its keys.
func (l *Link) List(form string, each func(item protocol.Dumped) error) (refused string, err error) {
	if err := l.send([]byte("lru_crawler metadump " + form + protocol.CRLF)); err != nil {
		return "", err
	}
	for first := true; ; first = false {
		line, err := l.line()
		if err != nil {
			return "", err
		}
		if string(line) == "END" {
			return "", nil
		}
		if first && !bytes.HasPrefix(line, []byte("key=")) {
			return string(line), nil
		}
		var beginning [40]byte // kept for the error, because decoding overwrites the line
		n := copy(beginning[:], line)
		item, ok := protocol.DecodeDumped(line)
		if !ok {
			return "", fmt.Errorf("the list of keys: %w", Unexpected(beginning[:n]))
		}
		if err := each(item); err != nil {
			return "", err
		}
		// each may have taken long, and what is buffered mostly ends within a line
		if rest, _ := l.r.Peek(l.r.Buffered()); bytes.IndexByte(rest, '\n') < 0 {
			if err := l.extend(); err != nil {
				return "", err
			}
		}
	}
}
