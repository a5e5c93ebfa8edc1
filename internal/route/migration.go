package route

import (
	"slices"
	"strings"
)

// Active reports whether keys are migrating: requests for them concern both pools.
func (p Phase) Active() bool { return p > MigrationWaiting && p < MigrationDone }

// ReadsNew reports whether the keys are read in the new pool.
func (p Phase) ReadsNew() bool { return p == MigrationBoth || p == MigrationDone }

// Move is a migration in a phase. A migration in phase back has no Move: its keys are placed as if there were no
// migration. From and To are the pools' numbers.
type Move struct {
	From, To int
	Phase    Phase
	// WarmsUp: only keys that reads miss are copied.
	WarmsUp bool
	// Cold, if not "", are names of servers of the pool From, separated by commas, that are filled with what reads miss
	// there. To is From then. "": keys move to the pool To.
	Cold string
	// Parallel: writes are sent to both pools at once: a fault for tests.
	Parallel bool
}

// row returns the row of the present phase.
func (m *Move) row() Row {
	row := migrationRows[m.Phase]
	switch {
	case m.Cold != "":
		row = fillRows[m.Phase]
	case m.WarmsUp:
		row = warmUpRows[m.Phase]
	}
	if m.Parallel {
		row.New &^= After
	}
	return row
}

// Migrate returns the Router of r's pools with moves applied in their order: a key that an earlier move has moved is
// moved again by a later one. No pool is in two active moves.
func (r *Router) Migrate(moves []Move) *Router {
	n := *r
	n.routed, n.moves = slices.Clone(r.pools), slices.Clone(moves)
	for _, m := range moves {
		switch old, to := r.pools[m.From], r.pools[m.To]; {
		case m.Phase == MigrationDone:
			n.table = n.table.redirect(m.From, m.To)
		case m.Phase.Active() && m.Cold != "":
			n.routed[m.From] = old.divided(r.servers, m.row(), m.Cold)
		case m.Phase.Active():
			n.routed[m.From] = between(r.servers, old, to, m.row())
			n.routed[m.From].n = old.n + to.n
			n.n = max(n.n, old.n+to.n)
		}
	}
	return &n
}

// divided returns the Group of the pool's keys, of whose servers those in cold, a list of names separated by commas,
// are the new side. servers are those of all pools.
func (g *Group) divided(servers []Server, row Row, cold string) *Group {
	names, isCold := strings.Split(cold, ","), make([]bool, len(g.servers))
	for i, s := range g.servers {
		isCold[i] = slices.Contains(names, s.Name)
	}
	d := *g
	d.servers, d.base, d.gutter, d.gutters, d.move = servers, 0, nil, nil, newMove(row, g, g)
	d.move.sides, d.move.cold = [2]side{d.move.sides[0]}, isCold
	return &d
}

// Divide returns the Routers of the two sides of the only pool of r: of the servers that fill others, and of those in
// cold that are filled.
func (r *Router) Divide(cold string) (others, filled *Router) {
	of := func(row Row) *Router { return routerOf(r.table, r.pools[0].divided(r.servers, row, cold)) }
	return of(Row{Old: settled}), of(Row{New: settled})
}

// Migrations returns the migrations that the Router was made for.
func (r *Router) Migrations() []Move { return r.moves }

// WarmsUp reports whether servers are being warmed up with the keys, so that reads ask them.
func (g *Group) WarmsUp() bool {
	return g.move != nil && g.move.row.New.Has(Tentative) && g.move.row.New&(Read|Look) != 0
}

// WarmsUpServer reports whether server is being warmed up, so that reads must treat a value with a provisional version
// there as a miss.
func (r *Router) WarmsUpServer(server int) bool {
	return slices.ContainsFunc(r.routed, func(g *Group) bool { return g.WarmsUp() && g.move.gains(server) })
}

// MovesPool reports whether an unfinished migration is from or to the pool with that number.
func (r *Router) MovesPool(number int) bool {
	return slices.ContainsFunc(r.moves,
		func(m Move) bool { return m.Phase != MigrationDone && (m.From == number || m.To == number) })
}

// Share returns which keys the pool with that number has, or will have after the migrations to it; nil: all, because
// there is only one pool, without a name.
func (r *Router) Share(number int) *Share {
	if !r.Named() {
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
	return &u
}
