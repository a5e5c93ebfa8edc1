package route

import "slices"

// MigrationPhase is a phase of the migration of a pool's keys to another pool. The phase follows from the clock and the configuration alone. Any two
// middlewares are in the same phase or in neighbouring ones, as with Phase:
//
//	phase       reads               writes  each write also deletes  commands that depend on the item (incr, cas, add ..)
//	waiting     old                 old                              decided by the old pool
//	delete-new  old                 old     on the new pool          decided by the old pool
//	copy        old                 both                             decided by the old pool, then copied
//	both        new                 both                             the key is deleted on both, and the answer is that of a miss
//	done        new                 new                              decided by the new pool
//
// Keys are copied in the background while all middlewares are in phase copy, in which nobody reads the new pool. The old pool says which version is
// current: as long as keys may be copied, a write is answered by an old server before it is sent to the new pool. So if all old servers still hold what
// was copied, a write of it has yet to reach the new pool. Phase both keeps two pools from deciding at the same time. After it nobody reads what the
// old pool holds.
//
// A migration that copies only what reads miss (Move.Missed) has phase warm-up before phase copy:
//
//	phase       reads               writes  each write also deletes  commands that depend on the item
//	warm-up     new; on a miss old  both                             decided by the old pool, then copied
//	copy        old                 both                             decided by the old pool, then copied
//	both, done  as above; or instead of them:
//	back        old                 old                              decided by the old pool
//
// In phase warm-up a key that a read misses in the new pool and finds in the old pool is copied (sweep.Transfer). The copy is first stored in the new
// pool so that nobody reads it. If the old pool then still holds the copied version, any write of another version has yet to reach the new pool, and
// will replace the copy there. In phase copy such a migration copies nothing, so that no unfinished copy is left in phase both.
//
// Some servers of a pool are warmed up in the same way (Move.Cold): these servers are the new pool of each key, and its other servers the old pool.
//
//	phase       reads                     writes  commands that depend on the item
//	waiting     both                      both    decided by the key's first server
//	undecided   old                       both    if the first server is cold: the key is deleted on all, and the answer is that of a miss
//	warm-up     both; on a miss in new    both    decided by the old servers, then copied
//	            old
//	copy        old                       both    decided by the old servers, then copied
//	undecided   as above
//	done        both                      both    decided by the key's first server
type MigrationPhase uint8

// The phases.
const (
	MigrationWaiting MigrationPhase = iota
	MigrationDeleteNew
	MigrationUndecided
	MigrationWarmUp
	MigrationCopy
	MigrationBoth
	MigrationDone
	MigrationBack
	NumMigrationPhases
)

var migrationPhaseNames = [NumMigrationPhases]string{"waiting", "delete-new", "undecided", "warm-up", "copy", "both", "done", "back"}

// String returns the phase's name, the same in metrics and logs.
func (p MigrationPhase) String() string { return migrationPhaseNames[p] }

// Active reports whether keys are migrating: requests for them concern both pools.
func (p MigrationPhase) Active() bool { return p > MigrationWaiting && p < MigrationDone }

// ReadsNew reports whether the keys are read in the new pool.
func (p MigrationPhase) ReadsNew() bool { return p == MigrationBoth || p == MigrationDone }

// Move is a migration in a phase. A migration in phase back has no Move: its keys are placed as if there were no migration. From and To are the
// pools' numbers.
type Move struct {
	From, To int
	Phase    MigrationPhase
	// Missed: only keys that reads miss are copied.
	Missed bool
	// Cold, if not "", are names of servers of the pool From, separated by commas, that are filled with what reads miss there. To is From then.
	// "": keys move to the pool To.
	Cold string
	// Parallel: writes are sent to both pools at once: a fault for tests.
	Parallel bool
}

// migration is the state of migrating keys, as their Router knows it.
type migration struct {
	phase    MigrationPhase
	missed   bool
	oldFirst bool // the old pool answers writes before they are sent to the new pool
	old, new *Router
}

// Migrate returns the Router of r's pools with moves applied in their order: a key that an earlier move has moved is moved again by a later one.
// No pool is in two active moves.
func (r *Router) Migrate(moves []Move) *Router {
	if len(moves) == 0 {
		return r
	}
	n := *r
	n.routed, n.moves = slices.Clone(r.pools), slices.Clone(moves)
	for _, m := range moves {
		switch old, to := r.pools[m.From], r.pools[m.To]; {
		case m.Phase == MigrationDone:
			n.table = n.table.redirect(m.From, m.To)
		case m.Phase.Active() && m.Cold != "":
			others, filled := old.Divide(m.Cold)
			n.routed[m.From] = &Router{
				servers: r.servers, n: old.n, read: old.read, zone: old.zone, measures: old.measures, number: m.From,
				migration: &migration{m.Phase, true, m.OldFirst(), others, filled},
			}
		case m.Phase.Active():
			reads := old
			if m.Phase.ReadsNew() {
				reads = to
			}
			n.routed[m.From] = &Router{
				servers: r.servers, n: old.n + to.n, read: reads.read, zone: reads.zone, measures: reads.measures, number: m.From,
				migration: &migration{m.Phase, m.Missed, m.OldFirst(), old, to},
			}
			n.n = max(n.n, old.n+to.n)
		}
	}
	return &n
}

// Migrations returns the migrations that the Router was made for.
func (r *Router) Migrations() []Move { return r.moves }

// Migrating returns the phase in which the keys of r, a Router that In or At returned, migrate; MigrationWaiting: they don't.
func (r *Router) Migrating() MigrationPhase {
	if r.migration == nil {
		return MigrationWaiting
	}
	return r.migration.phase
}

// WarmsUp returns the pool that is being warmed up with the keys of r, a Router that In or At returned: reads ask it before their own pool. nil: none.
func (r *Router) WarmsUp() *Router {
	if r.migration == nil || r.migration.phase != MigrationWarmUp {
		return nil
	}
	return r.migration.new
}

// OldFirst reports whether a write of key, whose Router r is, must be answered by the first of its servers before it is sent to the others.
func (r *Router) OldFirst(key []byte) bool {
	return r.migration != nil && r.migration.oldFirst && r.migration.divides(key)
}

// OldFirst reports whether the old pool answers writes of the migrating keys before they are sent to the new pool: whenever keys may be copied.
func (m *Move) OldFirst() bool {
	return m.Phase.Active() && !m.Parallel && (m.Phase == MigrationCopy || m.Missed && !m.Phase.ReadsNew())
}

// CopiesMissed reports whether only keys that reads miss are copied while the keys of r, a Router that In or At returned, migrate (Move.Missed).
func (r *Router) CopiesMissed() bool { return r.migration != nil && r.migration.missed }

// IsNew reports whether server is in the new pool of the keys whose Router r is.
func (r *Router) IsNew(server int) bool {
	m := r.migration
	switch {
	case m == nil:
		return false
	case m.new.side != nil:
		return m.new.side.has(server)
	}
	return server >= m.new.base && server < m.new.base+len(m.new.servers)
}

// WarmsUpServer reports whether server is being warmed up, so that reads must treat a value with a provisional version there as a miss.
func (r *Router) WarmsUpServer(server int) bool {
	return slices.ContainsFunc(r.moves, func(m Move) bool { return m.Phase == MigrationWarmUp && r.routed[m.From].IsNew(server) })
}

// Pooled returns the Router of the whole pool if some of its servers are warmed up and r is the Router of its keys; otherwise nil.
func (r *Router) Pooled() *Router {
	if r.migration == nil || r.migration.new.side == nil {
		return nil
	}
	return r.migration.new.side.of
}

// undecided is Undecided.
func (m *migration) undecided(key []byte, decider int) bool {
	switch m.phase {
	case MigrationBoth:
		return true
	case MigrationUndecided:
		pool := m.new.side
		return pool.has(pool.of.Primary(key)) && m.divides(key)
	}
	return m.readers().Undecided(key, decider)
}

// divides reports whether key has servers on both sides.
func (m *migration) divides(key []byte) bool {
	var room [16]int
	return m.new.side == nil || len(m.new.Replicas(key, room[:0])) > 0
}

// MovesPool reports whether an unfinished migration is from or to the pool with that number.
func (r *Router) MovesPool(number int) bool {
	return slices.ContainsFunc(r.moves, func(m Move) bool { return m.Phase != MigrationDone && (m.From == number || m.To == number) })
}

// Share returns which keys the pool with that number has, or will have after the migrations to it; nil: all, because there is only one pool.
func (r *Router) Share(number int) *Share {
	if r.table == nil {
		return nil
	}
	t := r.Table()
	for _, m := range r.moves {
		if m.Phase != MigrationDone && m.To == number {
			t = t.redirect(m.From, m.To)
		}
	}
	return r.pools[number].share(t.Share(number), r.pools[number].wanted)
}

// redirect returns t with pool to in place of pool from.
func (t *Table) redirect(from, to int) *Table {
	u := *t
	u.pools, u.reads = slices.Clone(t.pools), slices.Clone(t.reads)
	for _, pools := range [][]int{u.pools, u.reads} {
		for i, p := range pools {
			if p == from {
				pools[i] = to
			}
		}
	}
	if u.otherwise == from {
		u.otherwise = to
	}
	return &u
}

// readers returns the pool that is read; it also decides commands that depend on the item.
func (m *migration) readers() *Router {
	if m.phase.ReadsNew() {
		return m.new
	}
	return m.old
}

// appendReplicas is Replicas: first the servers of the pool that is read.
func (m *migration) appendReplicas(key []byte, dst []int) []int {
	dst = m.readers().Replicas(key, dst)
	switch m.phase {
	case MigrationUndecided, MigrationWarmUp, MigrationCopy:
		return m.new.Replicas(key, dst)
	case MigrationBoth:
		return m.old.Replicas(key, dst)
	}
	return dst
}

// appendEmptied is Emptied: the servers that either pool's own changes empty and, in phase delete-new, all of the new pool.
func (m *migration) appendEmptied(key []byte, dst []int) []int {
	dst = m.new.Emptied(key, m.old.Emptied(key, dst))
	if m.phase == MigrationDeleteNew {
		return m.new.Replicas(key, dst)
	}
	return dst
}
