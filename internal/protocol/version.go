package protocol

import (
	"bytes"
	"hash/crc32"
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

// AppendMetaWithCAS appends the mg head, which does not request the cas, with the flag that requests it, and without the flag q.
func AppendMetaWithCAS(dst, head []byte) []byte {
	return append(appendMeta(dst, head, "q"), " c"+CRLF...)
}

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

// AppendVersioned appends the meta command line that does what r does and gives the item version as its cas. r is a storage command, an incr, a
// decr or a meta command. The caller appends r's data block. The reply is never left out.
func (r *Request) AppendVersioned(dst []byte, version uint64) []byte {
	switch {
	case r.Command == Meta:
		dst = appendMeta(dst, r.Head, "q")
	case r.Command == Incr, r.Command == Decr:
		dst = append(append(append(append(dst, "ma "...), r.Keys...), " v k D"...), r.Head[bytes.LastIndexByte(r.Head, ' ')+1:]...)
		if r.Command == Decr {
			dst = append(dst, " MD"...)
		}
	default:
		dst = r.appendStorage(dst)
		switch r.Command {
		case Add:
			dst = append(dst, " ME"...)
		case Replace:
			dst = append(dst, " MR"...)
		case Append:
			dst = append(dst, " MA"...)
		case Prepend:
			dst = append(dst, " MP"...)
		case Cas:
			dst = append(append(dst, " C"...), r.Head[bytes.LastIndexByte(r.Head, ' ')+1:]...)
		}
	}
	return appendVersion(dst, version)
}

// AppendVersionedCopy appends the meta command line that stores the item of the storage command r unconditionally, with the given version.
func (r *Request) AppendVersionedCopy(dst []byte, version uint64) []byte {
	if r.Command == Meta {
		return appendVersion(appendMeta(dst, r.Head, "qCMIN"), version)
	}
	return appendVersion(r.appendStorage(dst), version)
}

// ShowsToken reports whether r is a read whose reply shows a cas, which a later write can name: a gets, or an mg with the flag c. An me is none: most of what it
// shows is its server's own.
func (r *Request) ShowsToken() bool {
	return r.Has(Reads|First) && !r.Has(Writes) && (r.Command == Gets || r.Fetches())
}

// Token returns the cas that the write r names as its condition. ok is false if it names none.
func (r *Request) Token() (cas uint64, ok bool) {
	switch {
	case !r.Has(Conditional):
		return 0, false
	case r.Command == Cas:
		cas, _, ok = parseUint64(r.Head[bytes.LastIndexByte(r.Head, ' ')+1:])
	default:
		cas, _, ok = parseUint64(flagOf(r.Head, 'C')[1:])
	}
	return cas, ok
}

// FirstOfGutter is the lowest token of an item in a gutter without versions: it is added to the server's own cas, so that it is no token elsewhere. NoToken is the
// token of no item.
const (
	FirstOfGutter = 1 << 61
	NoToken       = FirstVersion - 1
)

// AppendInGutter appends line, with which the conditional write r is sent to a gutter's server, with the cas that this server knows in place of r's token. A token
// from elsewhere becomes NoToken.
func (r *Request) AppendInGutter(dst, line []byte) []byte {
	token, _ := r.Token()
	if token < FirstOfGutter || token >= NoToken {
		token = NoToken
	} else {
		token -= FirstOfGutter
	}
	at, size := bytes.LastIndexByte(line, ' ')+1, len(firstWord(r.Head[bytes.LastIndexByte(r.Head, ' ')+1:]))
	if r.Command == Meta {
		flag := flagOf(r.Head, 'C')
		at, size = bytes.Index(line, append([]byte(" "), flag...))+len(" C"), len(flag)-len("C")
	}
	dst = strconv.AppendUint(append(dst, line[:at]...), token, 10)
	return append(dst, line[at+size:]...)
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
func (r *Request) Decrements() bool {
	mode := flagOf(r.Head, 'M')
	return len(mode) > 1 && (mode[1] == 'D' || mode[1] == '-')
}

// Stores returns the words of the classic storage command r, from the key to the size.
func (r *Request) Stores() (key, flags, exptime, size []byte) {
	_, rest := cutWord(r.Head)
	key, rest = cutWord(rest)
	flags, rest = cutWord(rest)
	exptime, rest = cutWord(rest)
	size, _ = cutWord(rest)
	return key, flags, exptime, size
}

// appendStorage appends an ms with the key, the size, the flags and the expiry of r, a classic storage command.
func (r *Request) appendStorage(dst []byte) []byte {
	key, flags, exptime, size := r.Stores()
	dst = append(append(append(append(dst, "ms "...), key...), ' '), size...)
	if string(flags) != "0" {
		dst = append(append(dst, " F"...), flags...)
	}
	if string(exptime) != "0" {
		dst = append(append(dst, " T"...), exptime...)
	}
	return dst
}

func appendVersion(dst []byte, version uint64) []byte {
	return append(strconv.AppendUint(append(dst, " E"...), version, 10), CRLF...)
}

// KeyText is a key as written in a meta command: unencoded, or in base64.
type KeyText struct {
	Text    []byte
	Encoded bool
}

// KeyText returns r's only key.
func (r *Request) KeyText() KeyText { return KeyText{r.Keys, r.Has(Encoded)} }

func (k KeyText) append(dst []byte, verb string) []byte {
	return append(append(append(dst, verb...), ' '), k.Text...)
}

// end appends the end of a meta command for k.
func (k KeyText) end(dst []byte) []byte {
	if k.Encoded {
		dst = append(dst, " b"...)
	}
	return append(dst, CRLF...)
}

// endNamed appends the end of a meta command for k whose reply must identify the key; see MetaFits. For a key in base64 an opaque does this, because
// a server may show the key itself unencoded, whatever bytes it has.
func (k KeyText) endNamed(dst []byte) []byte {
	if k.Encoded {
		dst = strconv.AppendUint(append(dst, " O"...), uint64(crc32.ChecksumIEEE(k.Text)), 10)
	} else {
		dst = append(dst, " k"...)
	}
	return k.end(dst)
}

// Key appends the key as servers know it.
func (k KeyText) Key(dst []byte) []byte {
	if k.Encoded {
		return decodeKey(dst, k.Text)
	}
	return append(dst, k.Text...)
}

// AppendLook appends a request for the version of k's item; whole: for the whole item. It does not count as a use of the item.
func (k KeyText) AppendLook(dst []byte, whole bool) []byte {
	if whole {
		return k.AppendFetch(dst, " u v f t c")
	}
	return k.AppendFetch(dst, " u c")
}

// AppendFetch appends an mg with the given flags, which begin with a blank.
func (k KeyText) AppendFetch(dst []byte, flags string) []byte {
	return k.endNamed(append(k.append(dst, "mg"), flags...))
}

// AppendGlance appends a request for the version and the expiry of k's item. It does not count as a use of the item.
func (k KeyText) AppendGlance(dst []byte) []byte {
	return k.AppendFetch(dst, " u t c")
}

// LongestExpiry is the largest exptime, in seconds, that memcached takes for a time from now. It takes a larger one for a date.
const LongestExpiry = 30 * 24 * 3600

// AppendStore appends the command line that stores it under k with its flags and expiry, and with the given version. replaced is the version
// that the existing item must have; 0: any.
func (k KeyText) AppendStore(dst []byte, it Item, replaced, version uint64) []byte {
	dst = strconv.AppendInt(append(k.append(dst, "ms"), ' '), int64(len(it.Data)-len(CRLF)), 10)
	if it.Flags != 0 {
		dst = strconv.AppendUint(append(dst, " F"...), uint64(it.Flags), 10)
	}
	if it.TTL >= 0 {
		// The copy may expire before the original.
		dst = strconv.AppendInt(append(dst, " T"...), min(max(it.TTL, 1), LongestExpiry), 10)
	}
	if replaced != 0 {
		dst = strconv.AppendUint(append(dst, " C"...), replaced, 10)
	}
	dst = strconv.AppendUint(append(dst, " E"...), version, 10)
	return k.end(dst)
}

// AppendAdd appends the command line that stores it under k with its flags and version if no item is there, for at most the given number of
// seconds.
func (k KeyText) AppendAdd(dst []byte, it Item, seconds int64) []byte {
	if it.TTL < 0 || it.TTL > seconds {
		it.TTL = seconds
	}
	dst = k.AppendStore(dst, it, 0, it.CAS)
	return append(dst[:len(dst)-len(CRLF)], " ME"+CRLF...)
}

// AppendCut appends a request that deletes k's item if it has the given version.
func (k KeyText) AppendCut(dst []byte, version uint64) []byte {
	return k.end(strconv.AppendUint(append(k.append(dst, "md"), " C"...), version, 10))
}

// AppendGiveBack appends a request that makes the next client that reads k's item, which is stale, responsible for renewing it. A look by mcmw
// had taken this role.
func (k KeyText) AppendGiveBack(dst []byte, version uint64) []byte {
	dst = strconv.AppendUint(append(k.append(dst, "md"), " I C"...), version, 10)
	return k.end(strconv.AppendUint(append(dst, " E"...), version, 10))
}

// AppendTouch appends a request that only changes the expiry of the item, as the mg r with the flag T does.
func (r *Request) AppendTouch(dst []byte) []byte {
	return AppendMeta(dst, r.Head, "qNREMCvcfsthlukOPLxIJDF")
}

// AppendDeletion appends a request that deletes k's item unconditionally.
func (k KeyText) AppendDeletion(dst []byte) []byte { return k.end(k.append(dst, "md")) }

// HasFlag reports whether the meta command line head has a flag.
func HasFlag(head []byte, letter byte) bool { return flagOf(head, letter) != nil }

// flagOf returns the flag with its argument; nil if head doesn't have it.
func flagOf(head []byte, letter byte) []byte {
	for flags := flagsOf(head); len(flags) > 0; {
		var word []byte
		if word, flags = cutWord(flags); len(word) > 0 && word[0] == letter {
			return word
		}
	}
	return nil
}

// Adds reports whether r stores its item only if there is none.
func (r *Request) Adds() bool {
	if r.Command == Meta {
		mode := flagOf(r.Head, 'M')
		return r.Arg[1] == 's' && len(mode) > 1 && mode[1] == 'E'
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
	case r.Arg[1] == 'g':
		dst = append(dst, "EN"...)
	case r.Arg[1] == 's' && !HasFlag(r.Head, 'C'):
		dst = append(dst, "NS"...)
	default:
		dst = append(dst, "NF"...)
	}
	for flags := flagsOf(r.Head); len(flags) > 0; {
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
func (r *Request) Fetches() bool { return r.Command == Meta && r.Arg[1] == 'g' }
