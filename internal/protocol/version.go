package protocol

import (
	"bytes"
	"strconv"
)

// With several writers, versions show whether replicas are equal: every stored item gets a unique cas (the flag E of memcached 1.6.27 and
// later). The functions of this file encode the commands for that, and decode their replies.

// FirstVersion is the lowest version. A cas that a server assigns itself counts its stored items, and stays far below.
const FirstVersion = 1 << 62

// FirstProvisional is the lowest version of a provisional copy, which must not be read yet. Lower versions belong to items.
const FirstProvisional = 1 << 63

// IsProvisional reports whether an item with this cas is a provisional copy.
func IsProvisional(cas uint64) bool { return cas >= FirstProvisional }

// CutCAS returns the cas that is the last flag in the line of a meta reply, the index in reply at which its flag starts (line), and the index
// at which the line ends (after). ok is false if there is none.
func CutCAS(reply []byte) (line, after int, cas uint64, ok bool) {
	return cutLast(reply, " c")
}

// CutValueCAS is CutCAS for a VALUE in the reply to a gets.
func CutValueCAS(element []byte) (line, after int, cas uint64, ok bool) {
	return cutLast(element, " ")
}

// cutLast finds the number after the last prefix in the first line of text; the number ends the line.
func cutLast(text []byte, prefix string) (line, after int, number uint64, ok bool) {
	after = bytes.IndexByte(text, '\r')
	if after < 0 {
		return 0, 0, 0, false
	}
	line = bytes.LastIndex(text[:after], []byte(prefix))
	if line < 0 {
		return 0, 0, 0, false
	}
	number, _, ok = parseUint64(text[line+len(prefix) : after])
	return line, after, number, ok
}

// ShowsToken reports whether r is a read whose reply shows a cas, which a later write can name: a gets, or an mg with the flag c. An me is none: most of what it
// shows is its server's own.
func (r *Request) ShowsToken() bool {
	return r.Has(Reads|First) && !r.Has(Writes) && (r.Command == Gets || r.Fetches())
}

// FirstOfGutter is the lowest token of an item in a gutter without versions: it is added to the server's own cas, so that it is no token elsewhere. NoToken is the
// token of no item.
const (
	FirstOfGutter = 1 << 61
	NoToken       = FirstVersion - 1
)

// InGutter makes op, a conditional write that is sent to a gutter's server, name the cas that this server knows in place of op's token. A token from
// elsewhere becomes NoToken.
func (op *Op) InGutter() {
	if op.CAS < FirstOfGutter || op.CAS >= NoToken {
		op.CAS = NoToken
	} else {
		op.CAS -= FirstOfGutter
	}
}

// AppendFromGutter appends reply, a VALUE or the reply to a meta command, with the token of an item in a gutter in place of the cas that it shows.
func AppendFromGutter(dst, reply []byte) []byte {
	if !bytes.HasPrefix(reply, []byte("VALUE ")) {
		it, ok := DecodeItem(reply)
		if !ok {
			return append(dst, reply...)
		}
		return AppendWithCAS(dst, reply, it.CAS|FirstOfGutter)
	}
	line, after, cas, ok := CutValueCAS(reply)
	if !ok {
		return append(dst, reply...)
	}
	dst = strconv.AppendUint(append(append(dst, reply[:line]...), ' '), cas|FirstOfGutter, 10)
	return append(dst, reply[after:]...)
}

// IsSet reports whether r is a classic command that stores its data unconditionally.
func (r *Request) IsSet() bool { return r.Command == Set }

// Decrements reports whether r, an ma, subtracts.
func (r *Request) Decrements() bool { return r.Mode == 'D' || r.Mode == '-' }

// Adds reports whether r stores its item only if there is none.
func (r *Request) Adds() bool {
	if r.Command == Meta {
		return r.Verb == 's' && r.Mode == 'E'
	}
	return r.Command == Add
}

// AppendForgotten appends the reply to r, which depends on an item, if there is no such item. For an add it appends the reply if there is
// one.
func (r *Request) AppendForgotten(dst []byte) []byte {
	if r.Command != Meta {
		switch r.Command {
		case Cas, Incr, Decr:
			return append(dst, textNotFound...)
		}
		return append(dst, textNotStored...)
	}
	switch {
	case r.Verb == 'g':
		dst = append(dst, "EN"...)
	case r.Verb == 's' && !r.HasFlag('C'):
		dst = append(dst, "NS"...)
	default:
		dst = append(dst, "NF"...)
	}
	for flags := r.text(); len(flags) > 0; {
		var word []byte
		switch word, flags = cutWord(flags); {
		case len(word) == 0:
		case word[0] == 'O':
			dst = append(append(dst, ' '), word...)
		case word[0] == 'k':
			if dst = append(append(dst, " k"...), r.Keys...); r.Has(Encoded) {
				dst = append(dst, " b"...)
			}
		}
	}
	return append(dst, CRLF...)
}

// Item is an item as a meta reply shows it. Data points into the reply.
type Item struct {
	CAS   uint64
	Flags uint32
	TTL   int64 // seconds; negative: the item does not expire
	// Stale: the item was marked as stale. Won: the client that gets this reply is responsible for renewing the item.
	Stale, Won bool
	Data       []byte // the value including its line end
}

// DecodeItem decodes the reply to a meta command. ok is false if it shows no item.
func DecodeItem(reply []byte) (it Item, ok bool) {
	end := bytes.IndexByte(reply, '\n')
	if end < len("HD\r") || string(reply[:2]) != "HD" && string(reply[:2]) != "VA" {
		return Item{}, false
	}
	flags := reply[2 : end-1]
	if reply[0] == 'V' {
		_, flags = cutWord(flags)
		it.Data = reply[end+1:]
	}
	it.TTL = -1
	for len(flags) > 0 {
		var word []byte
		if word, flags = cutWord(flags); len(word) == 0 {
			break
		}
		switch word[0] {
		case 'c':
			it.CAS, _, _ = parseUint64(word[1:])
		case 'f':
			v, _, _ := parseUint32(word[1:])
			it.Flags = uint32(v)
		case 't':
			if v, _, valid := parseUint32(word[1:]); valid {
				it.TTL = int64(v)
			}
		case 'X':
			it.Stale = true
		case 'W':
			it.Won = true
		}
	}
	return it, true
}

// AppendWithCAS appends reply, the reply to a meta command, with cas in place of the cas that it shows: the item got a new cas afterwards.
func AppendWithCAS(dst, reply []byte, cas uint64) []byte {
	end := bytes.IndexByte(reply, '\r')
	for start := 0; start < end; {
		word := firstWord(reply[start:end])
		if start > 0 {
			dst = append(dst, ' ')
		}
		if start > 0 && bytes.HasPrefix(word, []byte("c")) {
			dst = strconv.AppendUint(append(dst, 'c'), cas, 10)
		} else {
			dst = append(dst, word...)
		}
		start += len(word) + 1
	}
	return append(dst, reply[end:]...)
}

// Classic returns the reply to r in the form of r's command. reply is the reply to AppendVersioned, which is always a meta command.
func (r *Request) Classic(reply []byte) []byte {
	if r.Command == Meta {
		return reply
	}
	switch string(reply[:min(len(reply), 2)]) {
	case "HD":
		return textStored
	case "NS":
		return textNotStored
	case "EX":
		return textExists
	case "NF":
		return textNotFound
	case "VA":
		return reply[bytes.IndexByte(reply, '\n')+1:]
	}
	return reply
}

var (
	textStored    = []byte(TextStored)
	textNotStored = []byte("NOT_STORED\r\n")
	textExists    = []byte("EXISTS\r\n")
	textNotFound  = []byte("NOT_FOUND\r\n")
)

// Fetches reports whether r is an mg.
func (r *Request) Fetches() bool { return r.Command == Meta && r.Verb == 'g' }
