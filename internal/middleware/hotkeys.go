package middleware

import (
	"mcmw/internal/hotkeys"
	"mcmw/internal/stats"
)

// HotKeys returns the n keys that are asked for most, with their names if names is true. If Options.HotKeys is off
// there are none.
func (m *Middleware) HotKeys(n int, names bool) hotkeys.Report {
	c := m.current.Load()
	var all []string
	for _, s := range c.servers {
		all = append(all, s.Name)
	}
	reads := c.router.ForReads()
	return m.hot.Report(n, names, stats.Now(), all, func(key []byte) []string {
		var of []string
		for _, s := range reads.Replicas(key, nil) {
			of = append(of, all[s])
		}
		return of
	})
}
