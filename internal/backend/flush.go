package backend

import (
	"errors"
	"time"

	"mcmw/internal/link"
)

// sinceStart is what memcached's clock, in which it counts seconds, is ahead of its uptime.
const sinceStart = 60

// endFlush ends the second in which a flush_all that was delayed takes effect: until that second is over, the server
// forgets at once whatever it is told to store, as if it had been there before. So no marks can be put there, and if
// that is so on most servers none may be read. An immediate flush_all loses nothing more, and the server stores again.
// It does not matter who sent the delayed flush, or whether several middlewares end that second.
//
// kept is for how long the server has lost no item that had not expired; 0: unknown.
func endFlush(l *link.Link) (kept time.Duration, err error) {
	general, err := l.Stats("", "uptime", "evictions")
	settings := map[string]uint64{}
	if err == nil {
		settings, err = l.Stats("settings", "oldest")
	}
	if _, unexpected := errors.AsType[link.Unexpected](err); unexpected {
		return 0, nil // it does not tell
	}
	up, ok := general["uptime"]
	evicted, tells := general["evictions"]
	flushed := max(settings["oldest"], sinceStart)
	switch {
	case err != nil || !ok:
		return 0, err
	case settings["oldest"] == up+sinceStart:
		return 0, l.Flush()
	case tells && evicted == 0 && up+sinceStart > flushed+1: // in whole seconds
		kept = time.Duration(up+sinceStart-flushed-1) * time.Second
	}
	return kept, nil
}
