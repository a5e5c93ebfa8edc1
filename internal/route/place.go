package route

import (
	"cmp"
	"slices"
	"sync"
)

// A key's place is data: its servers, each with Roles. Of keys that share a fate, a Group knows an old and a new side,
// and the Row of a table below that says what the servers of either side do now. Rows apply one after another, from the
// inside: a pool whose own servers change may get keys of another pool and have a gutter. Holders follows these rules:
//
//	a server keeps the roles that its side has as well
//	a server that stores, on a side that drops, drops; one that drops keeps dropping
//	a server of both sides has the roles of both, except that Store beats Drop, and After counts only if both have it
//	the side that is read comes first
//	where rows permit different servers to decide, none does: the key is forgotten

// Roles are what a server does for a key.
type Roles uint8

// The roles.
const (
	Read   Roles = 1 << iota // reads ask it
	Store                    // writes store here
	Drop                     // writes delete the key here
	Decide                   // the first of these that can be read decides writes that depend on the item
	After                    // it gets a write only when the servers without this role have answered it
	// Tentative: it may hold copies that must not be read yet. An answer counts only if its version says so, and what
	// only changes an expiry deletes the key here.
	Tentative
	Look  // reads ask it before the servers with Read
	Brief // what is stored here expires after the pool's GutterTTL

	settled = Read | Store | Decide
)

// Has reports whether roles has all of these roles.
func (roles Roles) Has(these Roles) bool { return roles&these == these }

// of returns what a server does that does inner on a side with these roles.
func (roles Roles) of(inner Roles) Roles {
	of := roles&inner | inner&(Drop|After)
	if inner.Has(Store) {
		of |= roles & (Drop | After | Tentative | Brief)
	}
	if inner.Has(Read) {
		of |= roles & Look
	}
	return of
}

// Holder is a server of a key.
type Holder struct {
	Server int32
	Roles  Roles
}

// Row is what the two sides of a key do.
type Row struct {
	Old, New Roles
	Forget   forget
}

// forget says when a command that depends on the item is not decided, because another middleware may have another
// server decide it. It is answered like that of a missing key, and the key is deleted.
type forget uint8

const (
	never forget = iota
	// unlessFirst: unless that server decides which comes first on the new side or, within a pool, of all the key's
	// servers.
	unlessFirst
	always
	refuse // it gets an error instead
)

// Middlewares learn of a change at different times. Each goes through the phases in order and stays in each for longer
// than that difference. So at any time all of them are in one row of these tables or in two neighbouring ones; before
// the first row there is only the old side, after the last one only the new side. Of two neighbours, each writes or
// deletes whatever the other reads, and no two servers decide.

// changeRows are for a change of a pool's servers, and for a change of routes that gives keys of one pool to another
// pool, without values. What a new holder may still hold from an earlier placement must have been deleted there before
// ReadNew.
//
// Copy and HandOver are for values that are to be copied to the new holders, which ends in HandOver. They go before
// ReadNew. As in a migration, a write is answered by an old holder before it is sent to those that are only new: so if
// all old holders still hold what was copied, a write of it has yet to reach the others. All middlewares must have left
// DeleteNew before a key is copied.
//
// Late is for a middleware that starts during a change of routes and does not know which phase the others are in. It is
// compatible with every phase. It does not read what it has written.
var changeRows = [NumPhases]Row{
	DeleteNew: {Old: settled, New: Drop, Forget: unlessFirst},
	Copy:      {Old: settled, New: Store | After},
	HandOver:  {Old: settled, New: Store | After, Forget: unlessFirst},
	ReadNew:   {Old: Drop, New: settled},
	Late:      {Old: Store | Decide, New: Read | Drop, Forget: refuse},
}

// migrationRows copy a pool's keys to another pool in the background, in phase copy. The old pool says which version is
// current: as long as keys may be copied, a write is answered by an old server before it is sent to the new pool. So if
// all old servers still hold what was copied, a write of it has yet to reach the new pool.
var migrationRows = [NumPhases]Row{
	MigrationDeleteNew: {Old: settled, New: Drop},
	MigrationCopy:      {Old: settled, New: Store | After},
	MigrationBoth:      {Old: Store, New: settled, Forget: always},
}

// warmUpRows copy only what reads miss (Move.WarmsUp), in phase warm-up. The copy is first stored so that nobody reads
// it (sweep.Transfer). If the old pool then still holds the copied version, any write of another version has yet to
// reach the new pool, and will replace the copy there. In phase copy such a migration copies nothing, so that no
// unfinished copy is left in phase both.
var warmUpRows = [NumPhases]Row{
	MigrationDeleteNew: {Old: settled, New: Drop | After | Tentative},
	MigrationWarmUp:    {Old: settled, New: Store | After | Tentative | Look},
	MigrationCopy:      {Old: settled, New: Store | After | Tentative},
	MigrationBoth:      migrationRows[MigrationBoth],
}

// fillRows do the same within a pool (Move.Cold): the servers that are filled are the new side of each key, and its
// other servers the old side.
var fillRows = [NumPhases]Row{
	MigrationUndecided: {Old: settled, New: Store | After | Tentative, Forget: unlessFirst},
	MigrationWarmUp:    {Old: settled, New: Read | Store | After | Tentative},
	MigrationCopy:      {Old: settled, New: Store | After | Tentative},
}

// gutterRows are for a pool, the old side, and another pool that stands in for its servers; see Options.Gutter.
var gutterRows = [...]Row{
	shut: {Old: settled},
	open: {Old: settled, New: Drop},
	away: {Old: Drop, New: settled | Brief},
}

const (
	shut = iota
	open
	away
)

// States returns whether nobody reads a server, and all know that, so that its pool's gutter stands in for it; and
// whether the gutter may hold keys of it.
type States func(server int) (away, open bool)

// Decider is the only server that may decide a command which depends on a key's item, or one of these values.
type Decider int32

// The values of Decider that are no server.
const (
	Anyone  Decider = -1 - iota // the first server with Decide that can be read
	Nobody                      // the key is forgotten
	Refused                     // the command is refused
)

// Permits reports whether server may decide.
func (d Decider) Permits(server int) bool { return d == Anyone || int(d) == server }

// Holders appends a key's servers to dst, each once, and returns who may decide commands that depend on its item.
// states is nil if gutters don't matter. It allocates nothing if dst has room.
func (g *Group) Holders(key []byte, states States, dst []Holder) ([]Holder, Decider) {
	start, decider := len(dst), Anyone
	switch m := g.move; {
	case m == nil:
		if dst = g.appendHolders(key, dst); g.base == 0 && len(g.gutters) == 0 {
			return dst, decider
		}
	case m.cold != nil:
		dst, decider = m.divide(key, states, dst)
	default:
		dst, decider = m.join(key, states, dst)
	}
	if g.base > 0 {
		for i := start; i < len(dst); i++ {
			dst[i].Server += int32(g.base)
		}
		if decider >= 0 {
			decider += Decider(g.base)
		}
	}
	if len(g.gutters) > 0 && states != nil {
		return g.standIn(key, states, dst, start, decider)
	}
	return dst, decider
}

// appendHolders is Holders of a key that does not move.
func (g *Group) appendHolders(key []byte, dst []Holder) []Holder {
	switch len(g.servers) {
	case 0: // the Group of keys that other servers hold; see Share.Of
		return dst
	case 1:
		return append(dst, Holder{0, settled})
	}
	if g.rendezvous != nil {
		return g.rendezvous.appendTo(dst, g.hashed(key), g.n)
	}
	for _, s := range g.ring.holders(g.hash.sum(g.Hashed(key))) {
		dst = append(dst, Holder{int32(s), settled})
	}
	return dst
}

// move says where keys are that have an old and a new side.
type move struct {
	row   Row
	sides [2]side // the side that is read comes first
	// cold are, by server of the pool sides[0], those that are filled: the new side. There is no sides[1] then.
	// nil: the sides have placements of their own.
	cold []bool
}

// side is a placement with what its servers do.
type side struct {
	in    *Group
	roles Roles
	isNew bool
	index []int // by in's servers: their indexes among the servers of the move; nil: the same
}

// newMove returns the move from one placement to another. No gutter stands in for servers of a key that moves.
func newMove(row Row, from, to *Group) *move {
	old, next := *from, *to
	old.gutter, next.gutter = nil, nil
	m := &move{row: row, sides: [2]side{{in: &old, roles: row.Old}, {in: &next, roles: row.New, isNew: true}}}
	if !row.Old.Has(Read) {
		m.sides[0], m.sides[1] = m.sides[1], m.sides[0]
	}
	return m
}

func (m *move) join(key []byte, states States, dst []Holder) ([]Holder, Decider) {
	start, decider, first := len(dst), Anyone, Anyone
	for i := range m.sides {
		s, from := &m.sides[i], len(dst)
		var inner Decider
		if dst, inner = s.hold(key, states, dst); s.isNew {
			first = Decider(dst[from].Server)
		}
		if s.roles.Has(Decide) {
			decider = inner
		}
		dst = joined(dst, start, from, s.roles)
	}
	return dst, m.row.Forget.of(decider, first)
}

// of returns who may decide, where decider does on the side that decides, and first comes first on the new side.
func (f forget) of(decider, first Decider) Decider {
	switch {
	case f == refuse:
		return Refused
	case f == never:
		return decider
	case f == unlessFirst && (decider == Anyone || decider == first):
		return first
	}
	return Nobody
}

// hold is Holders of the side's placement, among the servers of the move.
func (s *side) hold(key []byte, states States, dst []Holder) ([]Holder, Decider) {
	from := len(dst)
	dst, decider := s.in.Holders(key, states, dst)
	if s.index != nil {
		for i := from; i < len(dst); i++ {
			dst[i].Server = int32(s.index[dst[i].Server])
		}
		if decider >= 0 {
			decider = Decider(s.index[decider])
		}
	}
	return dst, decider
}

// joined returns dst where dst[from:], the servers of a side with these roles, are joined with dst[start:from], those
// of the other side.
func joined(dst []Holder, start, from int, roles Roles) []Holder {
	kept := dst[:from]
	for _, h := range dst[from:] {
		h.Roles = roles.of(h.Roles)
		at := slices.IndexFunc(dst[start:from], func(o Holder) bool { return o.Server == h.Server })
		switch {
		case h.Roles == 0:
		case at < 0:
			kept = append(kept, h)
		default:
			other := &dst[start+at]
			after := After &^ (other.Roles & h.Roles)
			if other.Roles |= h.Roles; other.Roles.Has(Store) {
				other.Roles &^= Drop
			}
			other.Roles &^= after
		}
	}
	return kept
}

func (m *move) divide(key []byte, states States, dst []Holder) ([]Holder, Decider) {
	from := len(dst)
	dst, decider := m.sides[0].in.Holders(key, states, dst)
	isCold := func(h Holder) bool { return m.gains(int(h.Server)) }
	isWarm := func(h Holder) bool { return !isCold(h) && h.Roles.Has(Store) }
	// If all servers of a key are cold, they are on the old side, because there is nothing to fill them from.
	all := !slices.ContainsFunc(dst[from:], isWarm)
	if !all && slices.ContainsFunc(dst[from:], isCold) {
		decider = m.row.Forget.of(decider, Decider(dst[from].Server))
	}
	kept := dst[:from]
	for _, h := range dst[from:] {
		roles := m.row.Old
		if isCold(h) && !all {
			roles = m.row.New
		}
		if h.Roles = roles.of(h.Roles); h.Roles != 0 {
			kept = append(kept, h)
		}
	}
	return kept, decider
}

// gains reports whether server is on the new side.
func (m *move) gains(server int) bool {
	of := &m.sides[0]
	if m.cold == nil && !of.isNew {
		of = &m.sides[1]
	}
	at := server - of.in.base
	return at >= 0 && at < len(of.in.servers) && (m.cold == nil || m.cold[at])
}

// standIn adds the servers of gutters to dst[start:], the servers of a key of the pool, one of which decides by
// decider.
func (g *Group) standIn(key []byte, states States, dst []Holder, start int, decider Decider) ([]Holder, Decider) {
	isAway, isOpen := g.gutter != nil, true
	for _, h := range dst[start:] {
		if h.Roles.Has(Store) {
			serverAway, serverOpen := states(int(h.Server))
			isAway, isOpen = isAway && serverAway, isOpen && serverOpen
		}
	}
	state := open
	switch {
	case isAway:
		state = away
	case !isOpen:
		return dst, decider
	}
	row := gutterRows[state]
	dst = joined(dst, start, start, row.Old)
	for _, g := range g.gutters {
		from := len(dst)
		var standsIn Decider
		if dst, standsIn = g.Holders(key, nil, dst); state == away {
			decider = standsIn
		}
		dst = joined(dst, start, from, row.New)
	}
	if state == away {
		slices.SortStableFunc(dst[start:], func(a, b Holder) int { return cmp.Compare(a.Roles&Drop, b.Roles&Drop) })
	}
	return dst, decider
}

// With appends to dst the servers of key that have all of these roles, in their order, and none of the roles without.
// Gutters are shut. It allocates nothing if dst has room.
func (g *Group) With(these, without Roles, key []byte, dst []int) []int {
	if g.move == nil {
		var room [16]Holder
		return appendWith(dst, g.appendHolders(key, room[:0]), g.base, these, without)
	}
	room := rooms.Get().(*[]Holder)
	*room, _ = g.Holders(key, nil, (*room)[:0])
	dst = appendWith(dst, *room, 0, these, without)
	rooms.Put(room)
	return dst
}

func appendWith(dst []int, holders []Holder, base int, these, without Roles) []int {
	for _, h := range holders {
		if h.Roles.Has(these) && h.Roles&without == 0 {
			dst = append(dst, base+int(h.Server))
		}
	}
	return dst
}

// rooms has scratch memory for Group.With: what a recursive function returns can't stay on the stack.
var rooms = sync.Pool{New: func() any { return new([]Holder) }}

// Replicas appends to dst the servers that a key is written to, all distinct, those that are read first.
func (g *Group) Replicas(key []byte, dst []int) []int { return g.With(Store, 0, key, dst) }

// Readers appends to dst the servers that may be asked for a key and need no other server's word.
func (g *Group) Readers(key []byte, dst []int) []int { return g.With(Read, Tentative, key, dst) }

// Moving reports whether the keys have two sides.
func (g *Group) Moving() bool { return g.move != nil }

// Uses reports whether some servers have these roles for some keys, because the keys move.
func (g *Group) Uses(these Roles) bool {
	return g.move != nil && (g.move.row.New.Has(these) || g.move.row.Old.Has(these))
}

// Uses reports whether some servers have these roles for some keys, because the keys move.
func (r *Router) Uses(these Roles) bool {
	return slices.ContainsFunc(r.routed, func(g *Group) bool { return g.Uses(these) })
}
