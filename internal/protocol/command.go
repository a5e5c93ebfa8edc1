package protocol

// Command is what a request asks for. Its String is the label value of the metrics and the name on the wire.
type Command uint8

// The commands of the text protocol.
const (
	Invalid Command = iota // a line that is answered with an error text and reaches no server
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
	Meta  // mg ms md ma mn me
	Admin // slabs, lru, lru_crawler, cache_memlimit: administration of one server, passed through
	NumCommands
)

// Traits are what a request does, as far as placement, order and replication need to know: those of its command, and for a meta command
// those of its verb and flags.
type Traits uint16

// The traits.
const (
	// Reads: the answer is what a server holds, and the request may be asked again of another without harm.
	Reads Traits = 1 << iota
	// Writes: it changes what servers hold, and has to reach all that hold its keys. With Reads: it touches what it reads.
	Writes
	// First: it shows what only a key's first server knows: the cas, or what the item looks like there.
	First
	// Conditional: it changes the item only if that has the cas which the request names, and the first server alone knows.
	Conditional
	// Deletes: it leaves no copy of its key, whether there was one or not.
	Deletes
	// Marks: it may mark an item as stale, or store it as such. The reply does not say whether it did.
	Marks
	// Quiet: the reply that is the usual one is left out.
	Quiet
	// Fenced: the reply may be missing, or not say where it ends. An mn behind the request does.
	Fenced
	// Encoded: the line has the key in base64.
	Encoded
	// Everywhere: it is for every server, whatever it holds.
	Everywhere
	// Local: the middleware answers it.
	Local
	// Closes: it ends the client's connection.
	Closes
	// Depends: whether it changes the item, or to what, depends on what the server holds.
	Depends
	// Makes: it may leave an item behind that it has made or changed.
	Makes
	// Builds: it makes the item of the one that is there, so that only a look tells what came of it.
	Builds
	// Stamped: it names the cas that the item gets.
	Stamped
)

// Has reports whether t has all of others.
func (t Traits) Has(others Traits) bool { return t&others == others }

// IsRead reports whether a request with t only asks what a key holds: it changes nothing, and does not show the cas, which belongs to a write. A route may
// send such requests to a pool of their own.
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

// anyLine is what an administration command may be answered with, line by line.
const anyLine = ^(replySet(1)<<ReplyValue | 1<<ReplyMetaValue | 1<<ReplyMetaNoop)

// keyCount is how many keys a command names.
type keyCount uint8

const (
	noKey keyCount = iota
	oneKey
	manyKeys
)

// commands is what mcmw knows of each command. What a meta command does is in metaVerbs and metaFlags.
var commands = [NumCommands]struct {
	name   string
	keys   keyCount
	traits Traits
	// replies that consist of one element, which ends them, or of a list of more elements that an element of end closes. Error lines
	// end every reply.
	alone, more, end replySet
}{
	Invalid:   {name: "invalid"},
	Get:       {"get", manyKeys, Reads, 0, kinds(ReplyValue), kinds(ReplyEnd)},
	Gets:      {"gets", manyKeys, Reads | First, 0, kinds(ReplyValue), kinds(ReplyEnd)},
	Gat:       {"gat", manyKeys, Reads | Writes | First, 0, kinds(ReplyValue), kinds(ReplyEnd)},
	Gats:      {"gats", manyKeys, Reads | Writes | First, 0, kinds(ReplyValue), kinds(ReplyEnd)},
	Set:       {"set", oneKey, Writes | Makes, kinds(ReplyStored, ReplyNotStored), 0, 0},
	Add:       {"add", oneKey, Writes | Makes | Depends, kinds(ReplyStored, ReplyNotStored), 0, 0},
	Replace:   {"replace", oneKey, Writes | Makes | Depends, kinds(ReplyStored, ReplyNotStored), 0, 0},
	Append:    {"append", oneKey, Writes | Makes | Builds | Depends, kinds(ReplyStored, ReplyNotStored), 0, 0},
	Prepend:   {"prepend", oneKey, Writes | Makes | Builds | Depends, kinds(ReplyStored, ReplyNotStored), 0, 0},
	Cas:       {"cas", oneKey, Writes | Makes | Depends | Conditional, kinds(ReplyStored, ReplyNotStored, ReplyExists, ReplyNotFound), 0, 0},
	Delete:    {"delete", oneKey, Writes | Deletes, kinds(ReplyDeleted, ReplyNotFound), 0, 0},
	Incr:      {"incr", oneKey, Writes | Makes | Builds | Depends, kinds(ReplyNumber, ReplyNotFound), 0, 0},
	Decr:      {"decr", oneKey, Writes | Makes | Builds | Depends, kinds(ReplyNumber, ReplyNotFound), 0, 0},
	Touch:     {"touch", oneKey, Writes, kinds(ReplyTouched, ReplyNotFound), 0, 0},
	FlushAll:  {"flush_all", noKey, Writes | Everywhere, kinds(ReplyOK), 0, 0},
	Version:   {"version", noKey, 0, kinds(ReplyVersion), 0, 0},
	Verbosity: {"verbosity", noKey, Everywhere, kinds(ReplyOK), 0, 0},
	// With an argument stats is for every server, without one for the middleware.
	Stats: {"stats", noKey, 0, kinds(ReplyReset, ReplyOK), kinds(ReplyStat), kinds(ReplyEnd)},
	Quit:  {"quit", noKey, Closes | Local, 0, 0, 0},
	Meta:  {"meta", oneKey, 0, kinds(ReplyMetaLine, ReplyMetaValue), 0, 0},
	Admin: {"admin", noKey, Fenced, 0, anyLine, 0},
}

// String returns the command's name as it stands on the wire; "invalid", "meta" and "admin" stand for groups.
func (c Command) String() string {
	if c < NumCommands {
		return commands[c].name
	}
	return "unknown"
}

// IsRetrieval reports whether the reply to c is a list of VALUE items closed by END.
func (c Command) IsRetrieval() bool { return c >= Get && c <= Gats }

// IsMeta reports whether c is one of the meta commands.
func (c Command) IsMeta() bool { return c == Meta }

// IsKeyed reports whether c is a classic command that works on keys.
func (c Command) IsKeyed() bool { return c != Meta && commands[c].keys != noKey }

// BringsValues reports whether the reply to c may hold values.
func (c Command) BringsValues() bool {
	return commands[c].more.has(ReplyValue) || commands[c].alone.has(ReplyMetaValue)
}

// IsStorage reports whether c is a classic command that carries a data block.
func (c Command) IsStorage() bool { return c >= Set && c <= Cas }

// Accepts reports whether an element of kind k may stand in the reply to c, which is first in it or not, and whether it ends the reply.
// fenced: an mn follows c, and its reply ends that to c, which may be missing.
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
