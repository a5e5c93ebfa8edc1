package protocol

import (
	"bytes"
	"errors"
)

// ReplyKind is the kind of one element of a server's reply: a VALUE or VA with its data, or a line.
type ReplyKind uint8

// The kinds.
const (
	ReplyValue         ReplyKind = iota // VALUE <key> <flags> <bytes> [<cas>] and the data
	ReplyEnd                            // END
	ReplyStored                         // STORED
	ReplyNotStored                      // NOT_STORED
	ReplyExists                         // EXISTS
	ReplyNotFound                       // NOT_FOUND
	ReplyDeleted                        // DELETED
	ReplyTouched                        // TOUCHED
	ReplyOK                             // OK
	ReplyReset                          // RESET
	ReplyNumber                         // the result of incr and decr
	ReplyVersion                        // VERSION <text>
	ReplyStat                           // STAT, ITEM or PREFIX: an element of a list closed by END
	ReplyMetaValue                      // VA <bytes> <flags> and the data
	ReplyMetaDone                       // HD
	ReplyMetaMiss                       // EN
	ReplyMetaNotFound                   // NF
	ReplyMetaNotStored                  // NS
	ReplyMetaExists                     // EX
	ReplyMetaDebug                      // ME
	ReplyMetaNoop                       // MN
	ReplyError                          // ERROR
	ReplyClientError                    // CLIENT_ERROR <text>
	ReplyServerError                    // SERVER_ERROR <text>
	ReplyText                           // any other line, such as replies to administration commands
)

// IsError reports whether k is one of the three error lines.
func (k ReplyKind) IsError() bool { return k >= ReplyError && k <= ReplyServerError }

// IsMeta reports whether k is the reply to a meta command.
func (k ReplyKind) IsMeta() bool { return k >= ReplyMetaValue && k <= ReplyMetaDebug }

// Shows reports whether k is the reply to a meta command that shows an item.
func (k ReplyKind) Shows() bool { return k == ReplyMetaValue || k == ReplyMetaDone }

// IsNotFound reports whether k says that a command needed an item and there is none.
func (k ReplyKind) IsNotFound() bool { return k == ReplyNotFound || k == ReplyMetaNotFound }

// IsRefusal reports whether k says that a command's condition did not hold.
func (k ReplyKind) IsRefusal() bool {
	switch k {
	case ReplyNotStored, ReplyExists, ReplyMetaNotStored, ReplyMetaExists:
		return true
	}
	return k.IsNotFound()
}

// Reply is one element of a server's reply. Key points into the buffer it was decoded from.
type Reply struct {
	Kind ReplyKind
	// Key is the key of a VALUE.
	Key []byte
	// Data is the size of a value in bytes; it is known once the line is complete.
	Data int
}

// ErrReply: the bytes are not a reply of a memcached server. The start of the next reply can't be known, so their
// connection must be closed.
var ErrReply = errors.New("not a memcached reply")

const (
	// maxReplyLine bounds a line of a reply, in bytes. The longest lines that memcached sends are those of `stats`,
	// which are shorter than 4 KiB.
	maxReplyLine = 64 << 10
	// maxReplyData bounds the data of one item, in bytes: memcached's own limit for -I.
	maxReplyData = 1 << 30
)

// lineKind returns the kind of a line by its first word.
func lineKind(word []byte) (kind ReplyKind, known bool) {
	switch string(word) {
	case "END":
		return ReplyEnd, true
	case "STORED":
		return ReplyStored, true
	case "HD":
		return ReplyMetaDone, true
	case "EN":
		return ReplyMetaMiss, true
	case "NF":
		return ReplyMetaNotFound, true
	case "NS":
		return ReplyMetaNotStored, true
	case "EX":
		return ReplyMetaExists, true
	case "ME":
		return ReplyMetaDebug, true
	case "MN":
		return ReplyMetaNoop, true
	case "NOT_STORED":
		return ReplyNotStored, true
	case "EXISTS":
		return ReplyExists, true
	case "NOT_FOUND":
		return ReplyNotFound, true
	case "DELETED":
		return ReplyDeleted, true
	case "TOUCHED":
		return ReplyTouched, true
	case "OK":
		return ReplyOK, true
	case "RESET":
		return ReplyReset, true
	case "VERSION":
		return ReplyVersion, true
	case "STAT", "ITEM", "PREFIX":
		return ReplyStat, true
	case "ERROR", "ERROR:":
		return ReplyError, true
	case "CLIENT_ERROR":
		return ReplyClientError, true
	case "SERVER_ERROR", "SERVER_ERROR:":
		return ReplyServerError, true
	}
	return ReplyText, false
}

// DecodeReply decodes the reply element at the front of buf into r and returns its length in bytes. 0 means that it is
// incomplete; need is then its total length, or 0 if that isn't known yet.
func DecodeReply(buf []byte, r *Reply) (n, need int, err error) {
	if len(buf) >= len(TextEnd) && string(buf[:len(TextEnd)]) == TextEnd { // the most common line
		*r = Reply{Kind: ReplyEnd}
		return len(TextEnd), 0, nil
	}
	eol := bytes.IndexByte(buf, '\n')
	if eol < 0 {
		if len(buf) > maxReplyLine {
			return 0, 0, ErrReply
		}
		return 0, 0, nil
	}
	if eol < 1 || buf[eol-1] != '\r' {
		return 0, 0, ErrReply
	}
	line := buf[:eol-1]
	if len(line) > 6 && string(line[:6]) == "VALUE " {
		key, size, ok := valueLine(line[6:])
		if !ok {
			return 0, 0, ErrReply
		}
		r.Kind, r.Key, r.Data = ReplyValue, key, size
		return withData(buf, eol+1, size)
	}
	if len(line) > 3 && string(line[:3]) == "VA " {
		size, ok := dataSize(firstWord(line[3:]))
		if !ok {
			return 0, 0, ErrReply
		}
		r.Kind, r.Key, r.Data = ReplyMetaValue, nil, size
		return withData(buf, eol+1, size)
	}
	r.Key, r.Data = nil, 0
	kind, known := lineKind(firstWord(line))
	if !known {
		if _, _, ok := parseUint64(line); ok {
			kind = ReplyNumber
		}
	}
	r.Kind = kind
	return eol + 1, 0, nil
}

// withData completes an element whose line takes line bytes and announces size bytes of data.
func withData(buf []byte, line, size int) (n, need int, err error) {
	total := line + size + 2
	if len(buf) < total {
		return 0, total, nil
	}
	if buf[total-2] != '\r' || buf[total-1] != '\n' {
		return 0, 0, ErrReply
	}
	return total, 0, nil
}

// valueLine decodes "<key> <flags> <bytes>[ <cas>]".
func valueLine(s []byte) (key []byte, size int, ok bool) {
	key = firstWord(s)
	flags := len(key) + 1
	at := flags
	for at < len(s) && s[at] != ' ' {
		at++
	}
	if len(key) == 0 || at == flags || at >= len(s) {
		return nil, 0, false
	}
	end := at + 1
	for end < len(s) && s[end] != ' ' {
		end++
	}
	size, ok = dataSize(s[at+1 : end])
	return key, size, ok
}

func firstWord(s []byte) []byte {
	if i := bytes.IndexByte(s, ' '); i >= 0 {
		return s[:i]
	}
	return s
}

// dataSize parses the size of a data block.
func dataSize(s []byte) (size int, ok bool) {
	if len(s) == 0 || len(s) > len("1073741824") {
		return 0, false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		size = size*10 + int(c-'0')
	}
	return size, size <= maxReplyData
}
