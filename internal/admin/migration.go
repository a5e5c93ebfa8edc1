package admin

import (
	"fmt"
	"time"

	"mcmw/internal/route"
	"mcmw/internal/spell"
	"mcmw/internal/stats"
)

// Migration is the state of the migration of a pool's keys to another pool, with a description.
type Migration struct {
	stats.Migration

	Text string `json:"text"`
	// Next says what happens next, or what the operator should do.
	Next string `json:"next"`
	// Warning: the text names a problem.
	Warning bool `json:"warning"`
}

// migrations describes the migrations of s at the time now.
func migrations(s *stats.Snapshot, now time.Time) []Migration {
	all := []Migration{}
	for _, g := range s.Migrations {
		m := Migration{Migration: g, Warning: g.Late || g.Why != ""}
		at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
		others := "both"
		m.Text = fmt.Sprintf("%s to %s: phase %s", g.From, g.To, g.Phase)
		if g.Inside {
			others = "with the others"
			m.Text = fmt.Sprintf("%s of %s: phase %s", g.To, g.From, g.Phase)
		}
		if !g.Until.IsZero() {
			m.Text += " until " + at(g.Until)
		}
		if g.Items > 0 {
			m.Text += fmt.Sprintf("; %s keys copied", spell.Count(float64(g.Copied)))
			if g.Complete {
				m.Text += ", all keys were looked at"
			} else {
				m.Text += fmt.Sprintf(", %s of %s looked at, %s per second, %v left", spell.Count(float64(g.Listed)),
					spell.Count(float64(g.Items)), spell.Count(g.Rate),
					g.Remaining.Round(time.Second))
			}
			if g.Left > 0 {
				m.Text += fmt.Sprintf(", %s could not be copied", spell.Count(float64(g.Left)))
			}
		}
		if newPool, both := g.Recent.Ratios(); g.WarmsUp && g.Phase == route.MigrationWarmUp.String() {
			m.Text += fmt.Sprintf("; hit ratio in the last minute: %s %.2f %%, %s %.2f %%; %s keys copied", g.To,
				100*newPool, others, 100*both, spell.Count(float64(g.Here)))
		}
		if g.Why != "" {
			m.Text += "; no keys are copied now: " + g.Why
		}
		switch g.Phase {
		case route.MigrationWarmUp.String():
			switch {
			case !g.Back.IsZero():
				m.Next = fmt.Sprintf("only %s is read again from %s on; the migration can be removed from %s on",
					g.From, at(g.CopyUntil), at(g.Back))
			case g.Inside && !g.End.IsZero():
				m.Next = fmt.Sprintf("no keys are copied from %s on; the migration ends at %s", at(g.CopyUntil),
					at(g.End))
			case !g.End.IsZero():
				m.Next = fmt.Sprintf("no keys are copied from %s on; the migration to %s ends at %s", at(g.CopyUntil),
					g.To, at(g.End))
			case g.Warm:
				m.Next = fmt.Sprintf("%s is warm: set an end of the migration in the file of every mcmw", g.To)
			case g.Inside:
				m.Next = fmt.Sprintf("reads fill %s until its hit ratio is within %.2f %% of the ratio with the "+
					"others; then, or to give up, set an end in the file of every mcmw", g.To, 100*g.Within)
			default:
				m.Next = fmt.Sprintf("reads fill %s until its hit ratio is within %.2f %% of the ratio of both; to "+
					"give up, set back in the file of every mcmw", g.To, 100*g.Within)
			}
		case route.MigrationWaiting.String():
			m.Next = "it starts at " + at(g.Start)
		case route.MigrationUndecided.String():
			m.Next = "the warm-up starts at " + at(g.Until)
			if !now.Before(g.CopyUntil) {
				m.Next = "all servers are read again from " + at(g.Until) + " on"
			}
		case route.MigrationDone.String():
			if g.Inside {
				m.Next = "all servers are read: remove the migration from the file of every mcmw"
				break
			}
			m.Next = fmt.Sprintf("in routes, replace %s by %s, then remove the migration", g.From, g.To)
		case route.MigrationBack.String():
			m.Next = fmt.Sprintf("only %s is read; remove the migration from the file of every mcmw", g.From)
			if now.Before(g.Back) {
				m.Next += ", from " + at(g.Back) + " on"
			}
		case route.MigrationDeleteNew.String(), route.MigrationCopy.String():
			m.Next = fmt.Sprintf("keys are copied until %s; to end the migration earlier, remove it from the file of "+
				"every mcmw", at(g.CopyUntil))
			switch {
			case g.WarmsUp && g.Phase == route.MigrationDeleteNew.String():
				m.Next = "the warm-up starts at " + at(g.Until)
			case !g.Back.IsZero():
				m.Next = fmt.Sprintf("only %s is read; the migration can be removed from %s on", g.From, at(g.Back))
			case g.Inside:
				m.Next = fmt.Sprintf("only the other servers are read until %s", at(g.End))
			case g.WarmsUp:
				m.Next = fmt.Sprintf("%s is read from %s on", g.To, at(g.Until))
			case g.Late && now.Before(g.CopyUntil):
				m.Next = fmt.Sprintf("not all keys will be copied by %s: give the migration more time (remove it, "+
					"and set a later start and end), or raise sweep-rate", at(g.CopyUntil))
			case g.Late:
				m.Next = "not all keys were copied: the others will be misses"
			case now.After(g.CopyUntil):
				m.Next = fmt.Sprintf("%s is read from %s on", g.To, at(g.Until))
			}
		default:
			m.Next = fmt.Sprintf("it ends at %s; to go back then, add a migration from %s to %s", at(g.End), g.To,
				g.From)
		}
		all = append(all, m)
	}
	return all
}
