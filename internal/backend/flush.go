package backend

import (
	"errors"
	"strconv"
)

// sinceStart is what memcached's clock, in which it counts seconds, is ahead of its uptime.
const sinceStart = 60

// endFlush ends the second in which a flush_all that was delayed takes effect: until that second is over, the server forgets at once whatever it is
// told to store, as if it had been there before. So no marks can be put there, and if that is so on most servers none may be read. An immediate flush_all
// loses nothing more, and the server stores again. It does not matter who sent the delayed flush, or whether several middlewares end that second.
func (l *Link) endFlush() error {
	now, takesEffect := int64(-1), int64(-1)
	for _, q := range []struct {
		group, name string
		value       *int64
	}{{"", "uptime", &now}, {" settings", "oldest", &takesEffect}} {
		err := l.statsOf(q.group, func(name, value string) (err error) {
			if name == q.name {
				*q.value, err = strconv.ParseInt(value, 10, 64)
			}
			return err
		})
		if _, unexpected := errors.AsType[Unexpected](err); unexpected {
			return nil // it does not tell
		} else if err != nil {
			return err
		}
	}
	if now < 0 || takesEffect != now+sinceStart {
		return nil
	}
	return l.flush()
}
