package middleware

import (
	"errors"
	"maps"

	"mcmw/internal/route"
)

// checkSameStrips returns an error if o strips other prefixes than the current options. Servers would keep values under
// the keys' other names, and these would be read again, old by then, after a change back. applying is held.
func (m *Middleware) checkSameStrips(o *Options) error {
	router, err := o.route()
	if err == nil && !maps.EqualFunc(router.Stripped(), m.current.Load().router.Stripped(), (*route.Share).Equal) {
		err = errors.New("routes that strip a prefix, and routes with a longer prefix, cannot change while clients " +
			"are served; stop all mcmw, then start them with the new routes")
	}
	return err
}
