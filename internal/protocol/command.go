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

var commandNames = [NumCommands]string{
	"invalid", "get", "gets", "gat", "gats", "set", "add", "replace", "append", "prepend", "cas",
	"delete", "incr", "decr", "touch", "flush_all", "version", "verbosity", "stats", "quit", "meta", "admin",
}

// String returns the command's name as it stands on the wire; "invalid", "meta" and "admin" stand for groups.
func (c Command) String() string {
	if c < NumCommands {
		return commandNames[c]
	}
	return "unknown"
}

// IsRetrieval reports whether the reply to c is a list of VALUE items closed by END.
func (c Command) IsRetrieval() bool { return c >= Get && c <= Gats }

// IsStorage reports whether c has a data block.
func (c Command) IsStorage() bool { return c >= Set && c <= Cas }

// IsKeyed reports whether c names keys, which decide the servers it goes to.
func (c Command) IsKeyed() bool { return c >= Get && c <= Touch }
