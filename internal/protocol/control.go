package protocol

import (
	"bytes"
	"slices"
)

// decodeControl decodes the commands that address a server instead of a key, and lines that are no command.
func decodeControl(r *Request, w *words) (int, error) {
	r.takeNoReply(w)
	if w.n == 0 {
		return r.refuse(TextError)
	}
	switch string(w.word[0]) {
	case "flush_all":
		count, bare := 1, 1
		if r.NoReply {
			bare = 2
		}
		if w.n != bare {
			var ok bool
			if r.Expiry, ok = w.exptime(1, false); !ok {
				return r.refuse(TextBadExptime)
			}
			count, r.Fields = 2, fieldOf('T')
		}
		r.take(FlushAll, w, count)
	case "verbosity":
		level, ok := w.uint32(1)
		if !ok {
			return r.refuse(TextBadFormat)
		}
		r.Delta = level
		r.take(Verbosity, w, 2)
	case "slabs", "lru", "lru_crawler", "cache_memlimit":
		return decodeAdmin(r, w)
	case "config":
		if w.n != 3 || !w.is(1, "get") || !w.is(2, "cluster") {
			return r.refuse(TextError)
		}
		r.Command = Config
	case "shutdown":
		return r.refuse(TextNoShutdown)
	default:
		if w.n > 1 && bytes.HasPrefix(w.word[w.n-1], []byte("HTTP/")) {
			return -1, ErrHTTP
		}
		return r.refuse(TextError)
	}
	return -1, nil
}

// administration lists the administration commands that are passed on, each with its accepted subcommands. Every
// memcached answers these with one line. Newer versions accept a prefix of a word (lru_crawler m for lru_crawler
// metadump), so a subcommand must be written in full.
var administration = map[string][]string{
	"slabs":       {"reassign", "automove"},
	"lru":         {"tune", "mode", "temp_ttl"},
	"lru_crawler": {"enable", "disable", "crawl", "tocrawl", "sleep"},
}

// decodeAdmin decodes an administration command. Arguments of letters, digits and a few signs are passed on, including
// a noreply: the server judges them.
func decodeAdmin(r *Request, w *words) (int, error) {
	subcommands, has := administration[string(w.word[0])]
	switch {
	case w.is(0, "lru_crawler") && (w.is(1, "metadump") || w.is(1, "mgdump")):
		return r.refuse(TextNoCrawlerDump)
	case w.n < 2 || has && !slices.Contains(subcommands, string(w.word[1])):
		return r.refuse(TextError)
	}
	for _, word := range w.word[1:w.n] {
		if bytes.ContainsFunc(word, notInName) {
			return r.refuse(TextError)
		}
	}
	r.NoReply = false
	r.takeText(w, 0, w.n)
	r.take(Admin, w, w.n)
	return -1, nil
}

// notInName reports whether c must not appear in an argument of an administration command.
func notInName(c rune) bool {
	return !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c == '.' ||
		c == ',')
}

// statistics are the arguments of stats that are passed on. The reply to each is a list or one line.
var statistics = []string{
	"items", "slabs", "sizes", "sizes_enable", "sizes_disable", "settings", "conns", "reset", "extstore", "proxy",
	"proxyfuncs", "proxybe",
}

// wordServers is mcmw's own argument of stats: another argument follows, and with several servers each name in the
// reply has its server's name before it.
const wordServers = "servers"

func decodeStats(r *Request, w *words) (int, error) {
	count := 2
	if w.is(1, wordServers) && w.n > 2 && slices.Contains(statistics, string(w.word[2])) {
		r.Command, r.Mode = Stats, 's'
		r.takeText(w, 2, 3)
		return -1, nil
	}
	switch {
	case w.n == 1:
		count = 1
	case w.is(1, "detail"):
		// If another word follows, memcached replies with the words that it accepts.
		if w.is(2, "on") || w.is(2, "off") || w.is(2, "dump") {
			count = 3
		}
	case w.is(1, "cachedump"):
		return r.refuse(TextNoCacheDump)
	case !slices.Contains(statistics, string(w.word[1])):
		return r.refuse(TextError)
	}
	r.takeText(w, 1, count)
	r.take(Stats, w, count)
	return -1, nil
}
