package backend

import (
	"errors"

	"mcmw/internal/link"
)

// sinceStart is what memcached's clock, in which it counts seconds, is ahead of its uptime.
const sinceStart = 60

// endFlush ends the second in which a flush_all that was delayed takes effect: until that second is over, the server
// forgets at once whatever it is told to store, as if it had been there before. So no marks can be put there, and if
// that is so on most servers none may be read. An immediate flush_all loses nothing more, and the server stores again.
// It does not matter who sent the delayed flush, or whether several middlewares end that second.
func endFlush(l *link.Link) error {
	general, err := l.Stats("", "uptime")
	settings := map[string]uint64{}
	if err == nil {
		settings, err = l.Stats("settings", "oldest")
	}
	if _, unexpected := errors.AsType[link.Unexpected](err); unexpected {
		return nil // it does not tell
	}
	up, ok := general["uptime"]
	if err != nil || !ok || settings["oldest"] != up+sinceStart {
		return err
	}
	return l.Flush()
}
