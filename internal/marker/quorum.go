package marker

import (
	"slices"
	"time"
)

// A look counts if it is at a quorum: at most servers, or at one server for which all middlewares vouch. A mark on most
// servers is found by each look at most servers. While these do not answer, each middleware writes a number on those
// that do, with each look, and vouches for a server once all others have done so there. From then on it is bound to
// that server: its own marks are in force only if they are there, too, and its looks count only if they include it. So
// a look at a server to which all who are registered are bound finds all marks in force.
//
//	few servers answer ---> vouchFor: a number on each that does ---> hear: those of the others ---> allSince ---> quorum
//
// How old the number of another is must depend neither on its clock nor on when its store took effect. It must have
// followed an own one: marks are replaced by their cas, so who stored another number meanwhile had read the marks with
// this middleware's number, and decided to store its own after that had been made.
//
// What is in force by vouches alone must be known to all when they end, and most servers count again:
//   - Who is bound remains so until it no longer vouches, and all marks on the server are on most servers (release). If
//     the server is lost before, all servers are flushed (Lost).
//   - Who starts registers where all others look: on all servers, except those of which all who are registered have
//     acknowledged a mark, which nobody finds on a quorum who is bound to it. All marks that it finds must be on most
//     servers (joined). If it can't register for so long that nobody relies on one server any more, all servers
//     are flushed.
//   - Who is registered is known from the last look that counted, and from the marks on the server. Nobody is forgotten
//     while one server counts. Who was forgotten before that is bound to nothing, and forbids it for aloneFor.
//
// One server counts for aloneFor, and again from each proof that most of the others were not up: so many have refused a
// connection that those left are not most servers. Without interruption, because others may have begun in between. So
// who starts at most servers waits until it has had the same connections to them for startsAfter (steady): one of them
// was asked in vain by each later proof, and nobody who refuses connections has kept one.
//
// Of two servers, most are both. So nobody begins without the one that counts: it may count for ever, each look that
// counts finds its marks, and they are not lost without it. Who has acknowledged a mark of the other server, which is
// still there, relies on that one only after a look at this one, and may be forgotten by the owner of that mark.

const (
	// vouches begins the name in a mark by which a middleware vouches for a server, and asks that of one which would.
	vouches = " vouches for "
	asks    = " asks to vouch for "
	// shortOf is how long most servers must not have answered before a middleware asks the others to vouch.
	shortOf = 2 * LookEvery
	// aloneFor is how long one server may count, from the last look that found this middleware's registration on most,
	// or the last proof that most of the others were not up (Refused). After startsAfter none does, even if clocks
	// differ in speed, and counted from a look that found an earlier beat. Who reaches only the other servers can't
	// tell those who rely on that one from the dead, so a start may have to wait for as long.
	aloneFor    = time.Minute
	startsAfter = aloneFor + aloneFor/10 + validFor
	// settling is how long after the last look that counted the others may still come to vouch.
	settling = 4 * relied
)

// voucher is what is known of the numbers that another middleware writes on a server.
type voucher struct {
	number uint64 // the last one found there
	before int64  // when the own number was made that was there with it
	asked  int64  // it has written a number since then
	since  int64  // and has vouched since then
	heard  int64  // when the number was found first
}

// pair reports whether there are just two servers.
func (f *Fleet) pair() bool { return len(f.servers) == 2 }

// on identifies what an owner has written on a server.
type on struct{ server, owner string }

// vouchFor makes this middleware ask for vouches for server, or vouch for it, if few servers answer. It returns the
// mark that says so, and all registrations.
func (f *Fleet) vouchFor(server string, now int64) (say Marks) {
	// If most servers have lost their marks, all are flushed soon, and until then nobody is bound any more.
	lost := f.lost != 0 && now-f.lost >= int64(inForce)
	if f.few == 0 || now-f.few < int64(LookEvery) || lost || f.own[reads] == nil || f.marked(server) || f.mourns(now) {
		return nil
	}
	f.numbers = append(f.numbers, beat{f.number() + 1, now})
	for now-f.numbers[0].began > int64(relied) {
		f.numbers = f.numbers[1:]
	}
	name := asks + server
	if f.all(server, now, func(v voucher) int64 { return v.asked }) != 0 {
		name = vouches + server
		f.bound[server] = now + int64(inForce)
	}
	say = Marks{{name, f.owner, f.number()}}
	for _, k := range f.others(f.known) {
		if k.Server == reads {
			say = append(say, k)
		}
	}
	return say
}

// number returns the last number that this middleware has written.
func (f *Fleet) number() uint64 {
	if len(f.numbers) == 0 {
		return 0
	}
	return f.numbers[len(f.numbers)-1].number
}

// hear updates what is known of the numbers on server, on which marks are.
func (f *Fleet) hear(server string, marks Marks, now int64) {
	own := int64(0) // when the own number there was made; 0: there is none, or it is too old
	for _, k := range marks {
		for _, n := range f.numbers {
			if k.Owner == f.owner && k.vouchesFor(server) && n.number == k.Beat {
				own = n.began
			}
		}
	}
	for _, k := range marks {
		if k.Owner == f.owner || !k.vouchesFor(server) {
			continue
		}
		v := f.vouchers[on{server, k.Owner}]
		if v.number != k.Beat {
			v.number, v.asked, v.heard = k.Beat, v.before, now
			if k.Server == vouches+server {
				v.since, f.vouched = v.before, now
			}
		}
		v.before = own
		f.vouchers[on{server, k.Owner}] = v
	}
}

// all returns the earliest of the times that since returns for all who are registered, and of the last look at server;
// 0: it is too long ago, or one server must not count.
func (f *Fleet) all(server string, now int64, since func(voucher) int64) (earliest int64) {
	a := f.answers[server]
	if f.silent != 0 && now-f.silent < int64(aloneFor) || f.marked(server) || f.mourns(now) {
		return 0
	}
	earliest = a.begun
	for _, k := range f.others(f.known.merge(a.marks)) {
		switch k.Server {
		case reads:
			if !f.forgets(k.Owner, server, now) {
				earliest = min(earliest, since(f.vouchers[on{server, k.Owner}]))
			}
		case server:
			return 0
		}
	}
	if earliest <= now-int64(relied) {
		return 0
	}
	return earliest
}

// forgets reports whether owner, which is silent, is not waited for while server counts: it has acknowledged the mark
// by which this middleware keeps the other server from reads.
func (f *Fleet) forgets(owner, server string, now int64) bool {
	v := f.vouchers[on{server, owner}]
	if !f.pair() || v.number == 0 || now-v.heard <= int64(goneAfter) {
		return false
	}
	other := f.other(server)
	o := f.own[other]
	return o != nil && o.since != 0 && f.known.holds(Mark{other, f.owner, o.first}.acknowledgement(owner))
}

// other returns the other server of a pair.
func (f *Fleet) other(server string) string {
	if f.servers[0] == server {
		return f.servers[1]
	}
	return f.servers[0]
}

// allSince returns since when everybody who is registered has vouched for server; 0: not everybody has.
func (f *Fleet) allSince(server string, now int64) int64 {
	if f.bound[server] <= now || !f.pair() && now-f.apart(server) > int64(aloneFor) {
		return 0
	}
	return f.all(server, now, func(v voucher) int64 { return v.since })
}

// apart returns the time from which aloneFor counts for server: when most of the others were last known not to be up
// without this middleware's registration.
func (f *Fleet) apart(server string) int64 { return max(f.anchored, f.proved[server]) }

// Refused records that server has refused a connection to which the attempt began at begun: since then there was a
// moment in which it served nobody. So there was no majority without those that have refused, of which enough did so
// since the time that is the proof.
func (f *Fleet) Refused(server string, begun, now int64) {
	f.refused[server] = begun
	needed := len(f.servers) - f.majority()
	for _, one := range f.servers {
		var times []int64
		for _, other := range f.servers {
			if at, refused := f.refused[other]; refused && other != one {
				times = append(times, at)
			}
		}
		if needed == 0 || len(times) < needed || now-f.apart(one) > int64(aloneFor) {
			continue // of two servers, one may count for ever
		}
		slices.Sort(times)
		f.proved[one] = times[len(times)-needed]
	}
}

// Met records when the connection was made by which server is asked from then on.
func (f *Fleet) Met(server string, at int64) { f.met[server] = at }

// steady reports whether most servers answer, over connections that are so old that by no proof one server counts
// without them any more.
func (f *Fleet) steady(now int64) bool {
	n := 0
	for server, a := range f.answers {
		if a.begun > now-int64(relied) && now-f.met[server] > int64(startsAfter) {
			n++
		}
	}
	return n >= f.majority() || f.pair()
}

// marked reports whether somebody has marked server.
func (f *Fleet) marked(server string) bool { return f.own[server] != nil || f.MarkedBy(server) != "" }

// mourns reports whether a middleware was forgotten because it was silent, and may still take most servers for lost.
func (f *Fleet) mourns(now int64) bool {
	for _, at := range f.forgotten {
		if now-at < int64(aloneFor) && !f.pair() {
			return true
		}
	}
	return false
}

// quorum returns when the last look at a quorum began, of servers that were asked after a time and gave an answer for
// which ok returns true, and since when it can be relied on; 0: there was none.
func (f *Fleet) quorum(after, now int64, ok func(answer) bool) (begun, since int64) {
	latest := now
	for server := range f.bound {
		a := f.answers[server]
		if a.begun <= after || !ok(a) {
			return 0, 0
		}
		latest = min(latest, a.begun)
	}
	if _, most := f.count(after, ok); most != 0 {
		begun = min(most, latest)
		since = begun
	}
	for server := range f.bound {
		if all := min(f.allSince(server, now), latest); all > since {
			begun, since = latest, all
		}
	}
	return begun, since
}

// release ends what binds this middleware to servers for which it no longer vouches, when a look at most servers finds
// there all marks that are on these servers.
func (f *Fleet) release(recent, now int64) {
	for server, until := range f.bound {
		if a := f.answers[server]; now >= until && a.witness && a.begun > max(recent, until) &&
			f.shared(a.marks, recent) {
			delete(f.bound, server)
		}
	}
}

// shared reports whether those of marks that say that servers missed writes of others are on most servers, by answers
// to questions asked after recent.
func (f *Fleet) shared(marks Marks, recent int64) bool {
	return !slices.ContainsFunc(marks, func(k Mark) bool {
		if k.Owner == f.owner || !slices.Contains(f.servers, k.Server) {
			return false
		}
		_, most := f.count(recent, func(a answer) bool { return a.witness && a.marks.of(k.Server, k.Owner) })
		return most == 0
	})
}

// joined reports whether everybody who may rely on one server knows of registration, which is this middleware's, or
// will before it does so again, and this middleware knows all marks in force; by answers to questions asked after
// recent.
func (f *Fleet) joined(registration Mark, recent int64) bool {
	if f.orphaned || !f.pair() && !f.shared(f.known, recent) {
		return false
	}
	return !slices.ContainsFunc(f.servers, func(server string) bool {
		a := f.answers[server]
		looks := a.begun > recent && (!a.witness || a.marks.holds(registration)) // nobody relies on one without marks
		return !looks && !f.shunned(server)
	})
}

// shunned reports whether all who are registered have acknowledged a mark of server.
func (f *Fleet) shunned(server string) bool {
	marks := f.found
	if o := f.own[server]; o != nil && o.since != 0 {
		marks = append(slices.Clone(marks), Mark{server, f.owner, o.first})
	}
	return slices.ContainsFunc(marks, func(k Mark) bool { return k.Server == server && f.known.agree(k) })
}

// agree reports whether all who are registered, except its owner, have acknowledged k.
func (m Marks) agree(k Mark) bool {
	return !slices.ContainsFunc(m, func(r Mark) bool {
		return r.Server == reads && r.Owner != k.Owner && !m.holds(k.acknowledgement(r.Owner))
	})
}

// begins reports whether nobody relies on one server without this middleware, so that it may take marks for lost. That
// is so if all servers have answered for a while in which nobody vouched: who vouches for one does not reach most of
// those that have lost their marks. And if most servers have held no marks for so long: who relies on one server has
// found its registration on most of them within aloneFor.
func (f *Fleet) begins(now int64) bool {
	answered, _ := f.count(now-int64(relied), func(answer) bool { return true })
	blank, _ := f.count(now-int64(relied), func(a answer) bool {
		return !a.witness && a.blank != 0 && now-a.blank > int64(startsAfter)
	})
	return answered == len(f.servers) && (f.acceptsEmpty || now-max(f.whole, f.vouched) > int64(inForce)) ||
		f.anchored != 0 && now-f.anchored < int64(aloneFor) ||
		f.lost != 0 && now-f.lost > int64(startsAfter) && f.steady(now) || blank >= f.majority()
}

// Short reports whether too few servers answer, so that the numbers change with each look.
func (f *Fleet) Short() bool { return f.few != 0 }

// Agrees reports whether the last look that counted was at one server for which all middlewares vouch.
func (f *Fleet) Agrees() bool { return f.agrees }

// Settles reports whether, although too few servers answer, all middlewares may soon vouch for one.
func (f *Fleet) Settles(now int64) bool {
	return (f.pair() || f.anchored != 0) && now-f.begun < int64(settling)
}
