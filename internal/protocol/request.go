// Package protocol implements both directions of the memcached text protocol of memcached 1.6. It has no sockets,
// clocks or metrics: it decodes requests and replies from bytes that its callers have read, and encodes requests.
//
// A decoder has three distinct outcomes besides success. Unfinished: it consumes 0 bytes, and the caller reads more.
// Invalid: the request carries memcached's error text as its answer, and the connection stays open. Error: the
// connection must be closed, because memcached closes it, or because the start of the next message can't be known.
package protocol

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
)

// Request is one decoded request. Its slices point into the buffer it was decoded from, unless its line had to be
// rewritten.
type Request struct {
	Op
	// Answer, if not empty, is the reply, whatever the servers reply. Most such requests reach no server; see
	// HasEffect.
	Answer string
	// Skip is the number of bytes after the request that belong to a refused value. The reader discards them before it
	// queues the request; memcached, too, answers only then.
	Skip int32
	// NoReply: the client wants no reply.
	NoReply bool
	// Exact: Raw can be sent to a server as it is; it equals what Append writes, and Data.
	Exact bool
}

// IsOverview reports whether r is `stats` without an argument: the middleware's own statistics, and what the servers
// have to add.
func (r *Request) IsOverview() bool { return r.Command == Stats && r.textAt == r.textEnd }

// HasEffect reports whether a request with an Answer must reach the servers all the same, because memcached executes
// part of it before it refuses the rest: a set with a too large value removes the old value, and a retrieval fetches,
// or touches, the keys before one that is too long. Such a retrieval must not be forwarded as it was sent: when
// memcached refuses it, it drops the replies to earlier requests of the connection.
func (r *Request) HasEffect() bool {
	switch {
	case r.Command.IsRetrieval():
		return r.Answer == TextBadFormat
	case r.Command == Set, r.Command == Meta:
		return r.Answer == TextTooLarge
	}
	return false
}

// Replies reports whether r certainly gets a reply. It returns false for requests that may get none.
func (r *Request) Replies() bool { return !r.NoReply && !r.Has(Fenced) }

// Key returns the first key as servers know it. A key that was sent in base64 is decoded into room. That of a tombstone
// is the key that it belongs to.
func (r *Request) Key(room []byte) []byte {
	switch {
	case r.Has(Encoded):
		if key := r.Buried(); key != nil {
			return append(room, key...)
		}
		return decodeKey(room, r.Keys)
	case r.NumKeys > 1:
		return firstWord(r.Keys)
	}
	return r.Keys
}

// Miss appends the reply to r if no key is found. ok is false if r is no retrieval, or an mg that does more than read
// and touch, so that there is no such reply.
func (r *Request) Miss(dst []byte) (reply []byte, ok bool) {
	switch {
	case r.Command.IsRetrieval():
		return append(dst, TextEnd...), true
	case !r.Fetches() || r.Has(Depends):
		return dst, false
	case r.Has(Quiet):
		return dst, true
	}
	_, reply = r.Forgotten(dst)
	return reply, true
}

// Errors after which a client connection is closed, as memcached does.
var (
	// ErrLineTooLong: no line end within Limits.MaxLine bytes.
	ErrLineTooLong = errors.New("request line too long")
	// ErrHTTP: the line ends like that of an HTTP request. memcached closes the connection instead of answering a
	// browser's headers.
	ErrHTTP = errors.New("HTTP request on a memcached port")
)

// Texts of replies: those of the newest memcached, and those for commands that mcmw does not pass on.
const (
	TextError          = "ERROR\r\n"
	TextEnd            = "END\r\n"
	TextBadFormat      = "CLIENT_ERROR bad command line format\r\n"
	TextBadExptime     = "CLIENT_ERROR invalid exptime argument\r\n"
	TextBadDelta       = "CLIENT_ERROR invalid numeric delta argument\r\n"
	TextBadChunk       = "CLIENT_ERROR bad data chunk\r\n"
	TextTooLarge       = "SERVER_ERROR object too large for cache\r\n"
	TextMetaTooLong    = "CLIENT_ERROR options flags are too long\r\n"
	TextMetaDuplicate  = "CLIENT_ERROR duplicate flag\r\n"
	TextMetaUnknown    = "CLIENT_ERROR invalid flag\r\n"
	TextMetaArithmetic = "CLIENT_ERROR invalid or duplicate flag\r\n"
	TextMetaToken      = "CLIENT_ERROR bad token in command line format\r\n"
	TextMetaInitial    = "CLIENT_ERROR invalid numeric initial value\r\n"
	TextMetaDelta      = "CLIENT_ERROR invalid numeric delta value\r\n"
	TextMetaKey        = "CLIENT_ERROR error decoding key\r\n"
	TextMetaOpaque     = "CLIENT_ERROR opaque token too long\r\n"
	TextMetaSetMode    = "CLIENT_ERROR invalid mode for ms M token\r\n"
	TextMetaCountMode  = "CLIENT_ERROR invalid mode for ma M token\r\n"
	TextMetaNoop       = "MN\r\n"
	TextNoShutdown     = "SERVER_ERROR: shutdown not enabled\r\n"
	TextNoWatch        = "CLIENT_ERROR watch turns a connection into a stream and is not available through mcmw\r\n"
	TextNoCrawlerDump  = "CLIENT_ERROR lru_crawler metadump and mgdump turn a connection into a stream and are not " +
		"available through mcmw\r\n"
	TextNoCacheDump = "CLIENT_ERROR stats cachedump shows keys that may hold line ends and is not available " +
		"through mcmw\r\n"
	TextNoBinaryKeyEcho = "CLIENT_ERROR a key that holds a line end can not be shown\r\n"
)

// CRLF ends every line.
const CRLF = "\r\n"

// Decode decodes the request at the front of buf into r and returns its length in bytes. 0 means that the request is
// incomplete; need is then its total length, or 0 if that isn't known yet. A request that memcached refuses is complete
// and carries the refusal in r.Answer. After an error the connection must be closed. l must have no zero fields
// (WithDefaults).
func (l *Limits) Decode(buf []byte, r *Request) (n, need int, err error) {
	eol := bytes.IndexByte(buf, '\n')
	if eol < 0 {
		return 0, 0, l.checkUnfinishedLine(buf)
	}
	n = eol + 1
	line := buf[:eol]
	ended := eol > 0 && line[eol-1] == '\r' // as the protocol requires; a line feed alone ends a line as well
	if ended {
		line = line[:eol-1]
	}
	*r = Request{Op: Op{Raw: buf[:n]}}
	var size int
	switch {
	case n < minLine:
		size, err = r.refuse(TextBadFormat)
	// By far the most common request is a get of one or more keys.
	case len(line) > 4 && line[0] == 'g' && line[1] == 'e' && line[2] == 't' && line[3] == ' ':
		size = l.decodeKeys(r, Get, line, len("get"))
	default:
		size, err = l.decodeLine(r, line)
	}
	if err != nil {
		return 0, 0, err
	}
	// memcached before 1.6.40 ends a line at a zero byte, later versions don't.
	if r.Command != Invalid && bytes.IndexByte(line, 0) >= 0 {
		size, _ = r.refuseBlock(TextBadFormat, size)
	}
	r.Traits |= commands[r.Command].traits
	r.Exact = r.Exact && ended && !r.NoReply
	if size < 0 {
		return n, 0, nil
	}
	// size is the length of the data block without the CRLF that ends it.
	if size > l.MaxValue {
		r.Answer = TextTooLarge
		r.Skip = int32(size + 2)
		return n, 0, nil
	}
	total := n + size + 2
	if len(buf) < total {
		return 0, total, nil
	}
	r.Raw, r.Data = buf[:total], buf[n:total]
	if string(r.Data[size:]) != CRLF {
		_, _ = r.refuse(TextBadChunk)
	}
	return total, 0, nil
}

const wordNoReply = "noreply"

// minLine is the length of memcached's shortest command line, including its end.
const minLine = 4

// checkUnfinishedLine checks the length of a line whose end hasn't arrived.
func (l *Limits) checkUnfinishedLine(buf []byte) error {
	if len(buf) <= l.MaxLine {
		return nil
	}
	// memcached exempts multi-gets that follow at most 100 blanks.
	i := 0
	for i < len(buf) && buf[i] == ' ' {
		i++
	}
	line := buf[i:]
	if i <= 100 && (bytes.HasPrefix(line, []byte("get ")) || bytes.HasPrefix(line, []byte("gets "))) &&
		len(buf) <= l.MaxMultiGetLine {
		return nil
	}
	return ErrLineTooLong
}

// decodeLine decodes a command line. It returns the size of the data block that follows, without its CRLF, or -1 if
// there is none.
func (l *Limits) decodeLine(r *Request, line []byte) (size int, err error) {
	var w words
	w.split(line)
	if line[0] == ' ' || w.n == 0 {
		return decodeControl(r, &w) // anything else at the start of a line
	}
	switch c := commandNamed(w.word[0]); c {
	case Get, Gets:
		return l.decodeKeys(r, c, line, len(c.String())), nil
	case Gat, Gats:
		return l.decodeTouching(r, &w, c, line)
	case Meta:
		return l.decodeMeta(r, &w)
	case Version:
		r.take(Version, &w, 1)
		return -1, nil
	case Quit:
		r.Command = Quit
		return -1, nil
	case Stats:
		return decodeStats(r, &w)
	case Invalid, FlushAll, Verbosity, Config:
		if w.is(0, "watch") {
			return r.refuse(TextNoWatch)
		}
		return decodeControl(r, &w)
	default:
		return l.decodeKeyed(r, &w, c)
	}
}

// commandNamed returns the command with that name on the wire; Invalid: there is none.
func commandNamed(name []byte) Command {
	if len(name) == len("mg") && name[0] == 'm' && strings.IndexByte("gsdaen", name[1]) >= 0 {
		return Meta
	}
	for _, c := range byInitial[name[0]] {
		if string(name) == commands[c].name {
			return c
		}
	}
	return Invalid
}

// byInitial has the classic commands by the first letters of their names.
var byInitial = func() (by [256][]Command) {
	for c := Get; c < Meta; c++ {
		by[c.String()[0]] = append(by[c.String()[0]], c)
	}
	return by
}()

// refuse makes r a request that is answered with text and reaches no server.
func (r *Request) refuse(text string) (int, error) {
	r.Command, r.Traits = Invalid, 0
	r.Answer = text
	return -1, nil
}

// Refuse makes r, which was decoded, a request that is answered with text and reaches no server.
func (r *Request) Refuse(text string) {
	_, _ = r.refuse(text)
	r.Keys, r.NumKeys = nil, 0
}

// refuseBlock is refuse for a request with a data block of the given size, which is skipped, so that it is not taken
// for the next request. -1: the size is unknown.
func (r *Request) refuseBlock(text string, size int) (int, error) {
	if size >= 0 {
		r.Skip = int32(size + 2)
	}
	return r.refuse(text)
}

// takeNoReply records whether the last word is noreply, whatever the command.
func (r *Request) takeNoReply(w *words) { r.NoReply = w.last(wordNoReply) }

// decodeKeys decodes the keys of a retrieval, which follow the first from bytes of line.
func (l *Limits) decodeKeys(r *Request, c Command, line []byte, from int) int {
	plain, end := true, from // end: of the last key
	for at := from; at < len(line); {
		if line[at] == ' ' {
			at++
			continue
		}
		size := len(firstWord(line[at:]))
		if size > l.MaxKey {
			r.Answer = TextBadFormat
			break
		}
		plain = plain && at == end+1
		r.NumKeys++
		end = at + size
		at = end
	}
	if r.NumKeys == 0 {
		_, _ = r.refuse(TextBadFormat)
		return -1
	}
	r.Command, r.Exact = c, plain && end == len(line)
	if plain {
		r.Keys = line[from+1 : end]
		return -1
	}
	r.Keys = make([]byte, 0, end-from)
	for key, rest := cutWord(line[from:end]); len(key) > 0; key, rest = cutWord(rest) {
		if len(r.Keys) > 0 {
			r.Keys = append(r.Keys, ' ')
		}
		r.Keys = append(r.Keys, key...)
	}
	return -1
}

// decodeTouching decodes gat and gats.
func (l *Limits) decodeTouching(r *Request, w *words, c Command, line []byte) (size int, err error) {
	if w.n < 3 {
		return r.refuse(TextBadFormat)
	}
	from := cap(line) - cap(w.word[1]) + len(w.word[1])
	plain := from == len(w.word[0])+1+len(w.word[1])
	expiry, ok := w.exptime(1, false)
	if !ok {
		return r.refuse(TextBadExptime)
	}
	r.Expiry = expiry
	size = l.decodeKeys(r, c, line, from)
	r.Exact = r.Exact && plain && w.plain
	return size, nil
}

// decodeKeyed decodes a classic command with one key, by its words. If it has a data block whose size can't be decoded,
// the data block is taken for the next request.
func (l *Limits) decodeKeyed(r *Request, w *words, c Command) (size int, err error) {
	layout, stores := commands[c].words, c.IsStorage()
	size = -1
	if stores {
		var ok bool
		if size, ok = w.blockSize(4); !ok {
			return r.refuse(TextBadFormat)
		}
	} else if w.n <= len(layout) {
		return r.refuse(TextBadFormat)
	}
	r.takeNoReply(w)
	for i := range len(layout) {
		refusal, ok := TextBadFormat, true
		switch part := layout[i]; part {
		case 'k':
			ok = len(w.word[i+1]) <= l.MaxKey
		case 'F':
			var flags uint64
			flags, ok = w.uint32(i + 1)
			r.Flags = uint32(flags)
		case 'T':
			if r.Expiry, ok = w.exptime(i+1, stores); !stores {
				refusal = TextBadExptime
			}
		case 'C':
			r.CAS, ok = w.uint64(i + 1)
		case 'D':
			r.Delta, ok = w.uint64(i + 1)
			refusal = TextBadDelta
		}
		if !ok {
			return r.refuseBlock(refusal, size)
		}
	}
	r.take(c, w, 1+len(layout))
	r.Keys, r.NumKeys = w.word[1], 1
	return size, nil
}

// takeText makes the words from..to the text of r.
func (r *Request) takeText(w *words, from, to int) {
	if to = min(to, w.n); from < to {
		last := w.word[to-1]
		r.textAt, r.textEnd = uint32(cap(r.Raw)-cap(w.word[from])), uint32(cap(r.Raw)-cap(last)+len(last))
	}
}

// take makes r a command c that consists of the first n words. memcached ignores further ones, except a noreply.
func (r *Request) take(c Command, w *words, n int) {
	r.Command, r.Exact = c, w.are(n)
}

// Limits bound what a client may send. Zero fields mean memcached's defaults.
type Limits struct {
	// MaxKey is the maximum length of a key in bytes; 0 means DefaultMaxKey.
	MaxKey int
	// MaxValue is the maximum size of a value in bytes; 0 means DefaultMaxValue. A larger one is refused with
	// memcached's "SERVER_ERROR object too large for cache", and its data is skipped.
	MaxValue int
	// MaxLine is the number of bytes that may arrive without a line end before the connection is closed; 0 means
	// DefaultMaxLine. Lines of get and gets may have up to MaxMultiGetLine bytes.
	MaxLine int
	// MaxMultiGetLine bounds the line of a get or gets, in bytes; 0 means DefaultMaxMultiGetLine.
	MaxMultiGetLine int
}

// Defaults of Limits: memcached 1.6's KEY_MAX_LENGTH, its -I 1m, and the 2,048 bytes after which it gives up on a line.
// memcached has no bound for the line of a multi-get; 16 MiB holds 64,000 keys of the maximum length.
const (
	DefaultMaxKey          = 250
	DefaultMaxValue        = 1 << 20
	DefaultMaxLine         = 2048
	DefaultMaxMultiGetLine = 16 << 20
)

// WithDefaults returns l with memcached's defaults in its zero fields.
func (l Limits) WithDefaults() Limits {
	return Limits{
		MaxKey:          cmp.Or(l.MaxKey, DefaultMaxKey),
		MaxValue:        cmp.Or(l.MaxValue, DefaultMaxValue),
		MaxLine:         cmp.Or(l.MaxLine, DefaultMaxLine),
		MaxMultiGetLine: cmp.Or(l.MaxMultiGetLine, DefaultMaxMultiGetLine),
	}
}
