package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer reads the answer to o and judges it.
func (r *reader) answer(o *op) outcome {
	result := outcome{op: o}
	var err error
	switch {
	case o.form != classic:
		err = r.metaReplies(o, &result)
	case o.kind == get:
		err = r.values(o, &result)
	default:
		err = r.line(o, &result)
	}
	result.took = time.Since(o.due)
	if err != nil {
		result.lost, result.failure, result.cause = true, err.Error(), err
		if bad := new(badReply); errors.As(err, &bad) {
			// The bytes can be the reply to another request.
			result.wrong = append(result.wrong, fmt.Sprintf("wrong: %s was answered by %s", o, bad.text))
		}
	}
	return result
}

// badReply is an error for bytes that do not answer the request.
type badReply struct{ text string }

func (e *badReply) Error() string { return "not an answer: " + e.text }

// reader reads answers; its buffers are reused.
type reader struct {
	*bufio.Reader
	value, scratch []byte
}

// isError reports whether a line says that the request failed.
func isError(line []byte) bool {
	return bytes.HasPrefix(line, []byte("SERVER_ERROR ")) || bytes.HasPrefix(line, []byte("CLIENT_ERROR ")) ||
		string(line) == "ERROR"
}

// next reads a line and returns it without its end.
func (r *reader) next() ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	body, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return nil, &badReply{strconv.Quote(string(line))}
	}
	return body, nil
}

// line reads the answer to a write.
func (r *reader) line(o *op, result *outcome) error {
	line, err := r.next()
	if err != nil {
		return err
	}
	text := string(line)
	switch {
	case isError(line):
		result.failure = text
		return nil
	case o.kind == set && text == "STORED", o.kind == del && (text == "DELETED" || text == "NOT_FOUND"):
		o.acknowledged()
		return nil
	case o.kind == count && text == "NOT_FOUND":
		result.misses = 1
		return nil
	case o.kind == count:
		return o.counted(text)
	}
	return &badReply{strconv.Quote(text)}
}

// metaReplies reads the answers to meta commands.
func (r *reader) metaReplies(o *op, result *outcome) error {
	at := 0
	found := 0
	for {
		line, err := r.next()
		if err != nil {
			return err
		}
		text := string(line)
		key := o.keys[min(at, len(o.keys)-1)].key
		flags := fmt.Sprintf(" O%d k%s", o.opaque, key)
		switch {
		case isError(line):
			result.failure = text
			at++
		case text == "MN" && o.form == quiet:
			if o.kind == get {
				result.misses = len(o.keys) - found
			} else if result.failure == "" {
				o.acknowledged()
			}
			return nil
		case o.kind == get && o.form == meta && (text == "EN" || text == "EN"+flags):
			result.misses = 1
		case (o.kind == get || o.kind == count) && strings.HasPrefix(text, "VA "):
			if err := r.metaValue(o, text, &at, result); err != nil {
				return err
			}
			found++
			at++
		case o.form == meta && (text == "HD"+flags && (o.kind == set || o.kind == del) || text == "NF"+flags &&
			o.kind == del):
			o.acknowledged()
		// while the key moves to another pool, increments neither count nor create
		case o.kind == count && text == "NF"+flags:
			result.misses = 1
		case o.form == quiet && o.kind == del && text == "NF"+flags:
			// memcached 1.6.18 answers quiet deletes with NF, too.
		default:
			return &badReply{strconv.Quote(text)}
		}
		if o.form == meta {
			return nil
		}
	}
}

// metaValue reads the value after head, the line of a VA. For a quiet mg it can be the value of any key from number at
// on.
func (r *reader) metaValue(o *op, head string, at *int, result *outcome) error {
	fields := strings.Fields(head)
	want := []string{"f7", fmt.Sprintf("O%d", o.opaque)}
	if o.kind == count {
		want = want[1:]
	}
	if len(fields) != len(want)+3 || !slices.Equal(fields[2:2+len(want)], want) {
		return &badReply{fmt.Sprintf("%q with opaque %d", head, o.opaque)}
	}
	key, ok := strings.CutPrefix(fields[len(fields)-1], "k")
	for *at < len(o.keys) && o.keys[*at].key != key {
		*at++
	}
	if !ok || *at >= len(o.keys) {
		return &badReply{fmt.Sprintf("%q, which was not requested or is out of order", head)}
	}
	value, err := r.data(key, fields[1], head)
	if err != nil {
		return err
	}
	if o.kind == count {
		return o.counted(string(value))
	}
	r.judge(o, *at, value, result)
	return nil
}

// data reads a value whose line, head, says its size, and the line end after it. The value is valid until the next
// call.
func (r *reader) data(key, size, head string) ([]byte, error) {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > 1<<20 {
		return nil, &badReply{strconv.Quote(head)}
	}
	r.value = slices.Grow(r.value[:0], n+2)[:n+2]
	if _, err := io.ReadFull(r, r.value); err != nil {
		return nil, err
	}
	if string(r.value[n:]) != "\r\n" {
		return nil, &badReply{fmt.Sprintf("the value of %s does not end after the %d bytes that its line says", key, n)}
	}
	return r.value[:n], nil
}

// judge judges value as that of key number at.
func (r *reader) judge(o *op, at int, value []byte, result *outcome) {
	record := o.keys[at]
	r.scratch = slices.Grow(r.scratch[:0], len(value))
	switch record.judge(value, o.floors[at], r.scratch) {
	case wrong:
		result.wrong = append(result.wrong, fmt.Sprintf("wrong: %s of %d writes holds %.60q (%d bytes)", record.key,
			record.issued.Load(), value, len(value)))
	case stale:
		acked, how := record.acked.Load(), "acknowledged"
		if acked < o.floors[at] {
			how = fmt.Sprintf("read and write %d acknowledged", acked)
		}
		text := fmt.Sprintf("stale: %s returned %.40q after write %d had been %s", record.key, value, o.floors[at], how)
		if seq, _ := numberOf(record.key, value, r.scratch); seq >= acked {
			result.withdrawn = append(result.withdrawn, text)
		} else {
			result.stale = append(result.stale, text)
		}
	}
}

// values reads the answer to a get.
func (r *reader) values(o *op, result *outcome) error {
	at, found := 0, 0 // the first key that may come next; keys that had a value
	for {
		line, err := r.next()
		if err != nil {
			return err
		}
		switch {
		case string(line) == "END":
			result.misses = len(o.keys) - found
			return nil
		case isError(line):
			result.failure = string(line)
			return nil
		}
		fields := bytes.Fields(line)
		if len(fields) != 4 || string(fields[0]) != "VALUE" {
			return &badReply{strconv.Quote(string(line))}
		}
		key := string(fields[1])
		for at < len(o.keys) && o.keys[at].key != key {
			at++
		}
		if at == len(o.keys) {
			return &badReply{"the value of " + key + ", which was not requested or is out of order"}
		}
		value, err := r.data(key, string(fields[3]), string(line))
		if err != nil {
			return err
		}
		r.judge(o, at, value, result)
		at++
		found++
	}
}
