package middleware

import (
	"mcmw/internal/hotkeys"
	"mcmw/internal/stats"
)

// HotKeys returns the n keys that are asked for most; names: with their names. Without Options.HotKeys there are none.
func (m *Middleware) HotKeys(n int, names bool) hotkeys.Report {
	p := m.current.Load()
	var all []string
	for _, s := range p.servers {
		all = append(all, s.Name)
	}
	reads := p.router.ForReads()
	return m.hot.Report(n, names, stats.Now(), all, func(key []byte) []string {
		var of []string
		for _, s := range reads.Replicas(key, nil) {
			of = append(of, all[s])
		}
		return of
	})
}
