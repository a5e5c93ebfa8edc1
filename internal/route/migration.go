package route

import "slices"

// MigrationPhase is a phase of the migration of a pool's keys to another pool. Each follows from the clock and the configuration alone; two
// middlewares are in one phase or in two neighbours, as with Phase:
//
//	phase      reads  writes   deletes, with each write   what depends on the item (incr, cas, add ..)
//	waiting    old    old                                 decided by the old pool
//	delete-new old    old      on the new pool            decided by the old pool
//	warm-up    new, then old where that misses; both      decided by the old pool, then copied
//	copy       old    both                                decided by the old pool, then copied
//	both       new    both                                the key is deleted on both, and the answer is that of a miss
//	done       new    new                                 decided by the new pool
//
// Keys are copied in the background while all are in phase copy, in which nobody reads the new pool. Phase both is there so that no two pools decide at
// the same time. What the old pool holds behind it nobody reads.
//
// Phase warm-up is one of migrations that copy what is missed alone (Move.Missed): what a read misses in the new pool and finds in the old one is copied
// (sweep.Transfer). Which is current is the old pool's to say: up to phase copy, a write has been answered there before it is sent to the new pool. So who
// finds a version in the old pool behind having put its copy into the new one, where nobody reads it yet, knows that a write of another version will still come
// to the new pool, and take the copy's place. In phase copy nothing is copied then, so that no such copy is left in phase both. Such a migration can go back:
//
//	phase      reads  writes   deletes, with each write   what depends on the item (incr, cas, add ..)
//	warm-up    new, then old where that misses; both      decided by the old pool, then copied
//	copy       old    both                                decided by the old pool, then copied
//	back       old    old                                 decided by the old pool
//
// Some servers of a pool are warmed up likewise (Move.Cold): of each key's servers these are the new pool, and the others the old one.
//
//	phase      reads  writes   deletes, with each write   what depends on the item (incr, cas, add ..)
//	waiting    both   both                                decided by the key's first server
//	undecided  old    both                                where that is cold: the key is deleted on all, and the answer that of a miss
//	warm-up    new or old; old where that misses; both    decided by the old ones, then copied
//	copy       old    both                                decided by the old ones, then copied
//	undecided                                             as above
//	done       both   both                                decided by the key's first server
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

// Active reports whether keys are on their way: requests of them concern both pools.
func (p MigrationPhase) Active() bool { return p > MigrationWaiting && p < MigrationDone }

// ReadsNew reports whether the keys are read in the new pool.
func (p MigrationPhase) ReadsNew() bool { return p == MigrationBoth || p == MigrationDone }

// Move is a migration in a phase, other than back: keys are then as if there were no migration. From and To are the pools' numbers.
type Move struct {
	From, To int
	Phase    MigrationPhase
	// Missed: only what reads miss is copied.
	Missed bool
	// Cold are the names of servers, divided by commas, of the pool From, which is To as well, that are filled with what reads miss there; "": keys move.
	Cold string
}

// migration is what the Router of the keys that are on their way knows.
type migration struct {
	phase    MigrationPhase
	missed   bool
	old, new *Router
}

// Migrate returns the Router of r's pools while keys move, in the order of moves: a key that an earlier one has moved is moved by a later one,
// too. No pool is in two that are active.
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
				migration: &migration{m.Phase, true, others, filled},
			}
		case m.Phase.Active():
			reads := old
			if m.Phase.ReadsNew() {
				reads = to
			}
			n.routed[m.From] = &Router{
				servers: r.servers, n: old.n + to.n, read: reads.read, zone: reads.zone, measures: reads.measures, number: m.From,
				migration: &migration{m.Phase, m.Missed, old, to},
			}
			n.n = max(n.n, old.n+to.n)
		}
	}
	return &n
}

// Migrations returns the migrations that the Router was made for.
func (r *Router) Migrations() []Move { return r.moves }

// Migrating returns the phase in which the keys of the Router, that of a key, are on their way to another pool; MigrationWaiting: they are not.
func (r *Router) Migrating() MigrationPhase {
	if r.migration == nil {
		return MigrationWaiting
	}
	return r.migration.phase
}

// WarmsUp returns the pool in which the keys of the Router, that of a key, are looked for before they are read in their own; nil: there is none.
func (r *Router) WarmsUp() *Router {
	if r.migration == nil || r.migration.phase != MigrationWarmUp {
		return nil
	}
	return r.migration.new
}

// OldFirst reports whether a write of key, of which this is the Router, has to be answered by the first of its servers before it is sent to the others.
func (r *Router) OldFirst(key []byte) bool {
	return r.migration != nil && r.migration.missed && !r.migration.phase.ReadsNew() && r.migration.divides(key)
}

// IsNew reports whether server is of the new side of the keys that the Router is of.
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

// WarmsUpServer reports whether reads are to pass over what server holds under a provisional version.
func (r *Router) WarmsUpServer(server int) bool {
	return slices.ContainsFunc(r.moves, func(m Move) bool { return m.Phase == MigrationWarmUp && r.routed[m.From].IsNew(server) })
}

// Pooled returns the Router of the whole pool where some of its servers are warmed up, and this is the Router of its keys; nil: none are.
func (r *Router) Pooled() *Router {
	if r.migration == nil || r.migration.new.side == nil {
		return nil
	}
	return r.migration.new.side.of
}

// Undecided reports whether others may have another server decide what depends on key, of which this is the Router.
func (r *Router) Undecided(key []byte) bool {
	m := r.migration
	return m != nil && (m.phase == MigrationBoth || m.phase == MigrationUndecided && r.IsNew(m.new.side.of.Primary(key)) && m.divides(key))
}

// divides reports whether key has servers on both sides.
func (m *migration) divides(key []byte) bool {
	var room [16]int
	return m.new.side == nil || len(m.new.Replicas(key, room[:0])) > 0
}

// MovesPool reports whether a migration that is not done is from or to the pool of that number.
func (r *Router) MovesPool(number int) bool {
	return slices.ContainsFunc(r.moves, func(m Move) bool { return m.Phase != MigrationDone && (m.From == number || m.To == number) })
}

// Share returns which keys the pool of that number has, or will have when the migrations to it are done; nil: all, because there is one pool.
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

// redirect returns a table by which the keys of pool from are in pool to.
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

// readers returns the side that is read, which is the one that decides.
func (m *migration) readers() *Router {
	if m.phase.ReadsNew() {
		return m.new
	}
	return m.old
}

// appendReplicas is Replicas: first those of the side that is read.
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

// appendEmptied is Emptied: with what is not written of the sides' own servers, all of the new side while that is not.
func (m *migration) appendEmptied(key []byte, dst []int) []int {
	dst = m.new.Emptied(key, m.old.Emptied(key, dst))
	if m.phase == MigrationDeleteNew {
		return m.new.Replicas(key, dst)
	}
	return dst
}
