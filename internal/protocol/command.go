package protocol

import "strings"

// Command is the command of a request. Its String is the label value in metrics and the name on the wire.
type Command uint8

// The commands of the text protocol.
const (
	Invalid Command = iota // a line that gets an error text as its reply and reaches no server
	Get
	Gets
	Gat
	Gats
	Set
	Add
	Replace
	Append
	Prepend
	Cas
	Delete
	Incr
	Decr
	Touch
	FlushAll
	Version
	Verbosity
	Stats
	Quit
	Config // config get cluster: where clients reach the servers, a command of ElastiCache
	Meta   // mg ms md ma mn me
	Admin  // slabs, lru, lru_crawler, cache_memlimit: administration of one server, passed on to the servers
	NumCommands
)

// Traits describe a request as far as placement, order and replication need it. They follow from its command, and for a
// meta command from its verb and flags.
type Traits uint16

// The traits.
const (
	// Reads: the reply is what a server holds, and the request may be repeated at another server without harm.
	Reads Traits = 1 << iota
	// Writes: it changes items, and must reach all servers that hold its keys. With Reads: it touches the items that it
	// reads.
	Writes
	// First: it shows what only a key's first server knows: the cas, or details of the item there.
	First
	// Conditional: it changes the item only if the item has the cas that the request names. Only the first server knows
	// this cas.
	Conditional
	// Deletes: after it no copy of the key exists, whether there was one or not.
	Deletes
	// Marks: it may mark an item as stale, or store it as stale. The reply does not say whether it did.
	Marks
	// Quiet: the usual reply is left out.
	Quiet
	// Fenced: there may be no reply, or the reply does not show where it ends. The reply to an mn after the request
	// shows it.
	Fenced
	// Encoded: the key in the line is in base64.
	Encoded
	// Everywhere: it is for every server, whatever the server holds.
	Everywhere
	// Local: the middleware answers it.
	Local
	// Closes: it ends the client's connection.
	Closes
	// Depends: what the server holds decides whether it changes the item, or to which value.
	Depends
	// Makes: it may leave an item that it has created or changed.
	Makes
	// Builds: it derives the item from the existing one, so that only a read shows the result.
	Builds
	// Stamped: it names the cas that the item gets.
	Stamped
)

// Has reports whether t has all of others.
func (t Traits) Has(others Traits) bool { return t&others == others }

// IsRead reports whether a request with t only reads values: it changes nothing, and does not show the cas, which
// serves a later write. A route may send such requests to a pool of their own.
func (t Traits) IsRead() bool { return t&(Reads|Writes|First) == Reads }

// replySet is a set of kinds of reply elements.
type replySet uint32

func kinds(ks ...ReplyKind) (s replySet) {
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

func (s replySet) has(k ReplyKind) bool { return s&(1<<k) != 0 }

// anyLine is the set of elements that may be a line of the reply to an administration command.
const anyLine = ^(replySet(1)<<ReplyValue | 1<<ReplyMetaValue | 1<<ReplyMetaNoop)

// anyMeta is the set of elements that may be the reply to a meta command.
const anyMeta = replySet(1<<(ReplyMetaDebug+1) - 1<<ReplyMetaValue)

// commands describes each command. The traits of meta commands are in metaVerbs and metaFlags.
var commands = [NumCommands]struct {
	name string
	// words are those that follow the name: k the key or the keys, F the client flags, T the expiry, S the size of the
	// data block, C the cas, D a number, a arguments.
	words  string
	traits Traits
	// meta is the verb and the mode of the meta command that does the same; see Op.ToMeta.
	meta string
	// A reply is one element of alone, or a list of elements of more that an element of end closes. Error lines end
	// every reply.
	alone, more, end replySet
}{
	Invalid: {name: "invalid"},
	Get:     {"get", "k", Reads, "", 0, kinds(ReplyValue), kinds(ReplyEnd)},
	Gets:    {"gets", "k", Reads | First, "", 0, kinds(ReplyValue), kinds(ReplyEnd)},
	Gat:     {"gat", "Tk", Reads | Writes | First, "", 0, kinds(ReplyValue), kinds(ReplyEnd)},
	Gats:    {"gats", "Tk", Reads | Writes | First, "", 0, kinds(ReplyValue), kinds(ReplyEnd)},
	Set:     {"set", "kFTS", Writes | Makes, "s", kinds(ReplyStored, ReplyNotStored), 0, 0},
	Add:     {"add", "kFTS", Writes | Makes | Depends, "sE", kinds(ReplyStored, ReplyNotStored), 0, 0},
	Replace: {"replace", "kFTS", Writes | Makes | Depends, "sR", kinds(ReplyStored, ReplyNotStored), 0, 0},
	Append:  {"append", "kFTS", Writes | Makes | Builds | Depends, "sA", kinds(ReplyStored, ReplyNotStored), 0, 0},
	Prepend: {"prepend", "kFTS", Writes | Makes | Builds | Depends, "sP", kinds(ReplyStored, ReplyNotStored), 0, 0},
	Cas: {
		"cas", "kFTSC", Writes | Makes | Depends | Conditional, "s",
		kinds(ReplyStored, ReplyNotStored, ReplyExists, ReplyNotFound), 0, 0,
	},
	Delete:    {"delete", "k", Writes | Deletes, "", kinds(ReplyDeleted, ReplyNotFound), 0, 0},
	Incr:      {"incr", "kD", Writes | Makes | Builds | Depends, "a", kinds(ReplyNumber, ReplyNotFound), 0, 0},
	Decr:      {"decr", "kD", Writes | Makes | Builds | Depends, "aD", kinds(ReplyNumber, ReplyNotFound), 0, 0},
	Touch:     {"touch", "kT", Writes, "", kinds(ReplyTouched, ReplyNotFound), 0, 0},
	FlushAll:  {"flush_all", "T", Writes | Everywhere, "", kinds(ReplyOK), 0, 0},
	Version:   {"version", "", 0, "", kinds(ReplyVersion), 0, 0},
	Verbosity: {"verbosity", "D", Everywhere, "", kinds(ReplyOK), 0, 0},
	Stats:     {"stats", "a", Everywhere, "", kinds(ReplyReset, ReplyOK), kinds(ReplyStat), kinds(ReplyEnd)},
	Quit:      {"quit", "", Closes | Local, "", 0, 0, 0},
	Config:    {"config", "", Local, "", 0, 0, 0},
	Meta:      {"meta", "k", 0, "", anyMeta, 0, 0},
	Admin:     {"admin", "a", Fenced, "", 0, anyLine, 0},
}

// String returns the command's name on the wire. "invalid", "meta" and "admin" stand for groups of commands.
func (c Command) String() string {
	if c < NumCommands {
		return commands[c].name
	}
	return "unknown"
}

// IsRetrieval reports whether the reply to c is a list of VALUE items closed by END.
func (c Command) IsRetrieval() bool { return c >= Get && c <= Gats }

// IsDiscovery reports whether the reply to c says where clients reach the servers. The net stage knows it.
func (c Command) IsDiscovery() bool { return c == Config }

// IsMeta reports whether c is one of the meta commands.
func (c Command) IsMeta() bool { return c == Meta }

// hasKey reports whether c has a key, or keys.
func (c Command) hasKey() bool { return strings.IndexByte(commands[c].words, 'k') >= 0 }

// IsKeyed reports whether c is a classic command that works on keys.
func (c Command) IsKeyed() bool { return c != Meta && c.hasKey() }

// IsForAnyServer reports whether c needs one server, and any will do.
func (c Command) IsForAnyServer() bool { return c == Version }

// IsStorage reports whether c is a classic command that carries a data block.
func (c Command) IsStorage() bool { return c >= Set && c <= Cas }

// Accepts reports whether the reply to c may contain an element of kind k, as its first element or a later one, and
// whether the element is the last. fenced: an mn follows c, and the reply to the mn ends the reply to c, which may be
// missing.
func (c Command) Accepts(k ReplyKind, first, fenced bool) (last, ok bool) {
	t := &commands[c]
	switch {
	case fenced && k == ReplyMetaNoop:
		return true, true
	case fenced:
		return false, t.more.has(k) || (first && (t.alone.has(k) || k.IsError()))
	case t.more.has(k):
		return false, true
	}
	return true, k.IsError() || t.end.has(k) || (first && t.alone.has(k))
}
