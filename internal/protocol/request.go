package protocol

import (
	"bytes"
	"errors"
	"math"
)

// Request is one decoded request. Its slices point into the buffer it was decoded from.
type Request struct {
	Command Command
	// NoReply: the client wants no answer.
	NoReply bool
	// NumKeys is the number of keys in Keys.
	NumKeys int
	// Skip is the number of bytes after the request that belong to a value refused for its size. The reader drops them, and
	// queues the request when it has: memcached, too, answers only then.
	Skip int
	// Raw is the whole request as it was sent: line, line end, data block.
	Raw []byte
	// Head is the command line without its end and without the noreply token: with CRLF and Data behind it, it is the
	// same request, answered.
	Head []byte
	// Keys reaches from the first byte of the first key to the last of the last, blanks between them.
	Keys []byte
	// Arg is the exptime of gat and gats as sent, the name of a stats argument, or the first word of an Admin command.
	Arg []byte
	// Data is the data block with the two bytes behind it, which should be CRLF.
	Data []byte
	// Answer, if not empty, is the reply, whatever a server says. Most such requests reach none; see HasEffect.
	Answer string
}

// HasEffect reports whether a request whose Answer is known has to reach the servers all the same, because memcached does
// part of it before it refuses the rest: a set of too large a value removes the old one, and a retrieval fetches, or
// touches, the keys before one that is too long. Such a retrieval must not be forwarded as it was sent: with its refusal
// memcached drops the replies to what came before it on the connection.
func (r *Request) HasEffect() bool {
	switch r.Command {
	case Set, Meta:
		return r.Answer == TextTooLarge
	case Get, Gets, Gat, Gats:
		return r.Answer == TextBadFormat
	}
	return false
}

// Replies reports whether r is certain to be replied to; false if that depends.
func (r *Request) Replies() bool {
	switch r.Command {
	case Meta:
		return !bytes.Contains(r.Head, []byte(" q"))
	case Admin:
		return false
	}
	return !r.NoReply
}

// Errors after which a client connection is closed, as memcached does.
var (
	// ErrLineTooLong: no line end within Limits.MaxLine bytes.
	ErrLineTooLong = errors.New("request line too long")
	// ErrHTTP: the line ends like an HTTP request's; memcached closes rather than answer a browser's headers.
	ErrHTTP = errors.New("HTTP request on a memcached port")
)

// memcached's texts.
const (
	TextError         = "ERROR\r\n"
	TextEnd           = "END\r\n"
	TextBadFormat     = "CLIENT_ERROR bad command line format\r\n"
	TextBadExptime    = "CLIENT_ERROR invalid exptime argument\r\n"
	TextBadDelta      = "CLIENT_ERROR invalid numeric delta argument\r\n"
	TextBadDelete     = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
	TextTooLarge      = "SERVER_ERROR object too large for cache\r\n"
	TextMetaTooLong   = "CLIENT_ERROR options flags too long\r\n"
	TextNoShutdown    = "ERROR: shutdown not enabled\r\n"
	TextMetaNoop      = "MN\r\n"
	TextNoWatch       = "CLIENT_ERROR watch turns a connection into a stream and is not available through mcmw\r\n"
	TextNoCrawlerDump = "CLIENT_ERROR lru_crawler metadump turns a connection into a stream and is not available through mcmw\r\n"
)

// CRLF ends every line.
const CRLF = "\r\n"

// maxTokens is memcached's MAX_TOKENS: the command, its arguments, and a terminal token; what is beyond is one argument.
const maxTokens = 24

// maxMetaTokens is memcached's MFLAG_MAX_OPT_LENGTH.
const maxMetaTokens = 20

// tokens are the words of a command line. n counts as memcached does: with a terminal token behind the last word.
type tokens struct {
	word [maxTokens][]byte
	n    int
}

func (t *tokens) split(line []byte) {
	t.n = 0
	for t.n < maxTokens-1 {
		for len(line) > 0 && line[0] == ' ' {
			line = line[1:]
		}
		if len(line) == 0 {
			break
		}
		end := bytes.IndexByte(line, ' ')
		if end < 0 {
			end = len(line)
		}
		t.word[t.n] = line[:end]
		line = line[end:]
		t.n++
	}
	t.n++
}

// last returns the last word.
func (t *tokens) last() []byte { return t.word[t.n-2] }

// Decode decodes the request at the front of buf into r and returns the bytes it takes. With 0 the request is unfinished,
// and need is the total number of bytes it is known to take, 0 if that isn't known yet. A request that memcached refuses
// is complete and carries the refusal in r.Answer. An error means that the connection must be closed.
// l must have no zero fields (WithDefaults).
func (l *Limits) Decode(buf []byte, r *Request) (n, need int, err error) {
	eol := bytes.IndexByte(buf, '\n')
	if eol < 0 {
		return 0, 0, l.checkUnfinishedLine(buf)
	}
	n = eol + 1
	line := buf[:eol]
	// A lone "\r\n" keeps its CR, as in memcached; either way it is an ERROR.
	if eol > 1 && line[eol-1] == '\r' {
		line = line[:eol-1]
	}
	line = cString(line)
	*r = Request{Raw: buf[:n], Head: line}
	// The commonest request by far is a get of one or more keys.
	if len(line) > 4 && line[0] == 'g' && line[1] == 'e' && line[2] == 't' && line[3] == ' ' {
		l.decodeGet(r, Get, line[4:])
		return n, 0, nil
	}
	var t tokens
	t.split(line)
	size, err := l.decodeLine(r, &t, line)
	if err != nil {
		return 0, 0, err
	}
	if size < 0 {
		return n, 0, nil
	}
	// size is the length of the data block without the CRLF that ends it.
	if size > l.MaxValue {
		r.Skip = size + 2
		return n, 0, nil
	}
	total := n + size + 2
	if len(buf) < total {
		return 0, total, nil
	}
	// Whether CRLF ends the data block is for the server to see: memcached takes as many bytes either way, and what it finds
	// wrong with the flags or the size comes first.
	r.Raw, r.Data = buf[:total], buf[n:total]
	return total, 0, nil
}

// checkUnfinishedLine bounds a line whose end hasn't arrived.
func (l *Limits) checkUnfinishedLine(buf []byte) error {
	if len(buf) <= l.MaxLine {
		return nil
	}
	// memcached exempts multi-gets, behind at most 100 blanks.
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

// decodeLine decodes a command line. It returns the size of the data block that follows without the CRLF that ends it, -1
// if there is none.
func (l *Limits) decodeLine(r *Request, t *tokens, line []byte) (size int, err error) {
	// All commands have at least two bytes.
	if t.n < 2 || len(t.word[0]) < 2 {
		return r.refuse(TextError)
	}
	switch string(t.word[0]) {
	case "get", "bget":
		return l.decodeRetrieval(r, t, line, Get)
	case "gets":
		return l.decodeRetrieval(r, t, line, Gets)
	case "gat":
		return l.decodeRetrieval(r, t, line, Gat)
	case "gats":
		return l.decodeRetrieval(r, t, line, Gats)
	case "set":
		return l.decodeStorage(r, t, Set)
	case "add":
		return l.decodeStorage(r, t, Add)
	case "replace":
		return l.decodeStorage(r, t, Replace)
	case "append":
		return l.decodeStorage(r, t, Append)
	case "prepend":
		return l.decodeStorage(r, t, Prepend)
	case "cas":
		return l.decodeStorage(r, t, Cas)
	case "delete":
		return l.decodeDelete(r, t)
	case "incr":
		return l.decodeArithmetic(r, t, Incr)
	case "decr":
		return l.decodeArithmetic(r, t, Decr)
	case "touch":
		return l.decodeTouch(r, t)
	case "mg", "md", "ma", "me", "mn", "ms":
		return l.decodeMeta(r, t)
	default:
		return decodeControl(r, t)
	}
}

// refuse makes r a request that is answered with text and reaches no server.
func (r *Request) refuse(text string) (int, error) {
	r.Command = Invalid
	r.Answer = text
	return -1, nil
}

// takeNoReply is memcached's set_noreply_maybe: the last word, wherever it stands.
func (r *Request) takeNoReply(t *tokens) bool {
	last := t.last()
	if string(last) != "noreply" {
		return false
	}
	r.NoReply = true
	r.Head = r.Head[:len(r.Head)-tailFrom(r.Head, last)]
	return true
}

// tailFrom returns how many bytes of line stand from the start of its last word on.
func tailFrom(line, last []byte) int {
	return len(line) - bytes.LastIndex(line, last)
}

// decodeGet decodes the keys of a get or gets; rest is what follows the command.
func (l *Limits) decodeGet(r *Request, c Command, rest []byte) {
	rest = bytes.Trim(rest, " ")
	all := rest
	r.Command = c
	r.Keys = all
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, ' ')
		if end < 0 {
			end = len(rest)
		}
		if end > l.MaxKey {
			if r.NumKeys > 0 {
				r.Keys = bytes.TrimRight(all[:len(all)-len(rest)], " ")
				r.Answer = TextBadFormat
				return
			}
			_, _ = r.refuse(TextBadFormat)
			return
		}
		r.NumKeys++
		rest = rest[end:]
		for len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		}
	}
	if r.NumKeys > 0 {
		return
	}
	if c == Gat || c == Gats {
		r.Answer = TextEnd // memcached finds no key to be missing
		return
	}
	_, _ = r.refuse(TextError)
}

// FirstKey returns the first of keys, a Request's Keys.
func FirstKey(keys []byte) []byte {
	key, _ := cutWord(keys)
	return key
}

func (l *Limits) decodeRetrieval(r *Request, t *tokens, line []byte, c Command) (int, error) {
	if t.n < 3 {
		return r.refuse(TextError)
	}
	rest := after(line, t.word[0])
	if c == Gat || c == Gats {
		if _, ok := parseInt32(t.word[1]); !ok {
			return r.refuse(TextBadExptime)
		}
		r.Arg = t.word[1]
		rest = after(rest, t.word[1])
	}
	l.decodeGet(r, c, rest)
	return -1, nil
}

// after returns what follows the first word of line.
func after(line, word []byte) []byte {
	for len(line) > 0 && line[0] == ' ' {
		line = line[1:]
	}
	return line[len(word):]
}

func (l *Limits) decodeStorage(r *Request, t *tokens, c Command) (int, error) {
	want := 6
	if c == Cas {
		want = 7
	}
	if t.n != want && t.n != want+1 {
		return r.refuse(TextError)
	}
	r.takeNoReply(t)
	_, flagsOK := parseUint64(t.word[2])
	_, exptimeOK := parseInt32(t.word[3])
	size, sizeOK := parseInt32(t.word[4])
	casOK := true
	if c == Cas {
		_, casOK = parseUint64(t.word[5])
	}
	if len(t.word[1]) > l.MaxKey || !flagsOK || !exptimeOK || !sizeOK || !casOK || size < 0 || size > math.MaxInt32-2 {
		return r.refuse(TextBadFormat)
	}
	r.Command, r.Keys, r.NumKeys = c, t.word[1], 1
	if int(size) > l.MaxValue {
		r.Answer = TextTooLarge
	}
	return int(size), nil
}

func (l *Limits) decodeDelete(r *Request, t *tokens) (int, error) {
	if t.n < 3 || t.n > 5 {
		return r.refuse(TextError)
	}
	if t.n > 3 {
		zero := string(t.word[2]) == "0"
		noreply := r.takeNoReply(t)
		if (t.n == 4 && !zero && !noreply) || (t.n == 5 && !(zero && noreply)) {
			return r.refuse(TextBadDelete)
		}
	}
	return l.keyed(r, t, Delete)
}

func (l *Limits) decodeArithmetic(r *Request, t *tokens, c Command) (int, error) {
	if t.n != 4 && t.n != 5 {
		return r.refuse(TextError)
	}
	r.takeNoReply(t)
	if len(t.word[1]) <= l.MaxKey {
		if _, ok := parseUint64(t.word[2]); !ok {
			return r.refuse(TextBadDelta)
		}
	}
	return l.keyed(r, t, c)
}

func (l *Limits) decodeTouch(r *Request, t *tokens) (int, error) {
	if t.n != 4 && t.n != 5 {
		return r.refuse(TextError)
	}
	r.takeNoReply(t)
	if len(t.word[1]) <= l.MaxKey {
		if _, ok := parseInt32(t.word[2]); !ok {
			return r.refuse(TextBadExptime)
		}
	}
	return l.keyed(r, t, Touch)
}

// keyed completes a command that has one key and no data block.
func (l *Limits) keyed(r *Request, t *tokens, c Command) (int, error) {
	if len(t.word[1]) > l.MaxKey {
		return r.refuse(TextBadFormat)
	}
	r.Command, r.Keys, r.NumKeys = c, t.word[1], 1
	return -1, nil
}

// decodeMeta frames a meta command. Only ms has a data block; memcached looks at its size before it looks at the flags.
func (l *Limits) decodeMeta(r *Request, t *tokens) (int, error) {
	r.Command = Meta
	r.Arg = t.word[0]
	if string(t.word[0]) == "mn" {
		r.Answer = TextMetaNoop
		return -1, nil
	}
	if t.n >= 3 {
		r.Keys, r.NumKeys = t.word[1], 1
	}
	if string(t.word[0]) != "ms" {
		return -1, nil
	}
	if t.n < 3 {
		return r.refuse(TextError)
	}
	if len(t.word[1]) > l.MaxKey || t.n == 3 {
		return r.refuse(TextBadFormat)
	}
	if t.n > maxMetaTokens {
		return r.refuse(TextMetaTooLong)
	}
	size, ok := parseInt32(t.word[2])
	if !ok || size < 0 || size > math.MaxInt32-2 {
		return r.refuse(TextBadFormat)
	}
	if int(size) > l.MaxValue {
		r.Answer = TextTooLarge
	}
	return int(size), nil
}

// decodeControl decodes the commands that work on a server rather than on a key.
func decodeControl(r *Request, t *tokens) (int, error) {
	switch string(t.word[0]) {
	case "flush_all":
		if t.n > 4 {
			return r.refuse(TextError)
		}
		r.Command = FlushAll
		bare := 2
		if r.takeNoReply(t) {
			bare = 3
		}
		if t.n != bare {
			if _, ok := parseInt32(t.word[1]); !ok {
				return r.refuse(TextBadExptime)
			}
		}
	case "verbosity":
		if t.n != 3 && t.n != 4 {
			return r.refuse(TextError)
		}
		r.takeNoReply(t)
		if _, ok := parseUint64(t.word[1]); !ok {
			return r.refuse(TextBadFormat)
		}
		r.Command = Verbosity
	case "version":
		r.Command = Version
	case "quit":
		r.Command = Quit
	case "stats":
		r.Command = Stats
		if t.n > 2 {
			r.Arg = t.word[1]
		}
	case "lru_crawler":
		if t.n == 4 && string(t.word[1]) == "metadump" {
			return r.refuse(TextNoCrawlerDump)
		}
		r.Command, r.Arg = Admin, t.word[0]
	case "slabs", "lru", "cache_memlimit":
		r.Command, r.Arg = Admin, t.word[0]
	case "watch":
		return r.refuse(TextNoWatch)
	case "shutdown":
		return r.refuse(TextNoShutdown)
	default:
		if bytes.HasPrefix(t.last(), []byte("HTTP/")) && !dispatchedByFirstByte(t.word[0]) {
			return -1, ErrHTTP
		}
		return r.refuse(TextError)
	}
	return -1, nil
}

// dispatchedByFirstByte reports whether memcached answers an unknown word with ERROR before it looks for HTTP: it does so
// for words that start like its commonest commands.
func dispatchedByFirstByte(word []byte) bool {
	switch word[0] {
	case 'g', 's', 'a', 'c', 'i', 'd', 't':
		return true
	case 'm':
		return len(word) == 2
	}
	return false
}
