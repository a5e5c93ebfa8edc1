package marker

import (
	"slices"
)

// Witness records that server, asked at begun, held marks. If the server is to hold other marks, it returns these as
// want, with changed true; Put must be called when they have been stored.
func (f *Fleet) Witness(server string, marks Marks, begun, now int64) (want Marks, changed bool) {
	f.holds(server, marks)
	f.see(server, answer{begun: begun, witness: true, marks: marks}, now)
	want = f.Want(marks).merge(f.vouchFor(server, now))
	return want, !slices.Equal(want, marks)
}

// Again is Witness for a server that holds what it held before, except for beats, and is to hold nothing else; it
// returns false if that is not so, or if a mark is to come into force. What follows from it is left to the next call of
// Witness, within JudgeEvery: with many servers answers come more often than all can be judged.
func (f *Fleet) Again(server string, marks Marks, begun, now int64) bool {
	a := f.answers[server]
	if f.few != 0 || !a.witness || !marks.alike(a.marks) || !slices.Equal(f.Want(marks), marks) {
		return false
	}
	for _, o := range f.own {
		if !o.respected() {
			return false
		}
	}
	f.holds(server, marks)
	f.answers[server] = answer{begun: begun, witness: true, marks: marks}
	f.hear(server, marks, now)
	return true
}

// holds notes which of this middleware's marks server holds.
func (f *Fleet) holds(server string, marks Marks) {
	for on, o := range f.own {
		if marks.holds(Mark{on, f.owner, o.first}) {
			o.on[server] = true
		}
	}
}

// know updates the marks of others from answers to questions asked after recent.
func (f *Fleet) know(recent, now int64) {
	known := f.known
	f.known = nil
	for _, s := range f.answers {
		if s.witness && s.begun > recent {
			f.known = f.known.merge(f.others(s.marks))
		}
	}
	before := f.heard
	for _, k := range f.known {
		f.news = f.news || k.ofServer() && !known.of(k.Server, k.Owner)
	}
	f.heard = make(map[Mark]int64, len(f.known))
	patience, sure := goneAfter, true
	if o := f.own[reads]; o == nil || !o.respected() {
		patience, sure = startsAfter, f.steady(now)
	}
	for _, k := range f.known {
		f.heard[k] = now
		if since, heard := before[k]; heard {
			f.heard[k] = since
		}
		if !k.ofServer() && sure && now-f.heard[k] > int64(patience) && (!f.agrees || f.pair()) &&
			(k.Server == reads || !f.known.of(reads, k.Owner)) {
			f.remove(k)
			f.orphaned = f.orphaned || k.Server == reads && patience == startsAfter
		}
		if k.Server == reads {
			delete(f.forgotten, k.Owner)
		}
	}
	for _, k := range known {
		if k.Server == reads && now-before[k] >= int64(validFor) && !f.others(f.known).of(reads, k.Owner) {
			f.forgotten[k.Owner] = now
		}
	}
	f.watch(recent, now)
}

// remove makes this middleware remove marks of others from the servers.
func (f *Fleet) remove(marks ...Mark) {
	f.removed = append(f.removed, marks...)
	f.removed = f.removed[max(0, len(f.removed)-maxRemoved):]
}

// watch updates which marks of others are on a majority, and since when, from answers to questions asked after recent.
func (f *Fleet) watch(recent, now int64) {
	before := f.since
	f.since, f.found = map[string]int64{}, nil
	for _, k := range f.known {
		if !k.ofServer() {
			continue
		}
		if k.Beat = f.beatOf(k, recent, now); k.Beat == 0 {
			continue
		}
		f.found = append(f.found, k)
		f.since[k.Server] = now
		if since, seen := before[k.Server]; seen {
			f.since[k.Server] = since
		}
	}
}

// beatOf returns the latest beat with which k is on a quorum, by answers to questions asked after recent; 0: it is not.
func (f *Fleet) beatOf(k Mark, recent, now int64) uint64 {
	var beats []uint64
	for _, a := range f.answers {
		for _, h := range a.marks {
			if h.Server == k.Server && h.Owner == k.Owner {
				beats = append(beats, h.Beat)
			}
		}
	}
	slices.Sort(beats)
	for _, k.Beat = range slices.Backward(slices.Compact(beats)) {
		holds := func(a answer) bool { return a.witness && a.marks.holds(k) }
		if begun, _ := f.quorum(recent, now, holds); begun != 0 {
			return k.Beat
		}
	}
	return 0
}

// findClear updates clear by a look that began at begun, from answers to questions asked after recent. A mark cannot
// have come into force and been removed between two looks that began within inForce.
func (f *Fleet) findClear(begun, recent, now int64) {
	first, blind := f.begun == 0, begun-f.begun >= int64(inForce)
	silent, marked, bound := len(f.servers), map[string]int{}, map[string]bool{} // by marked server
	for name, a := range f.answers {
		if a.begun <= recent {
			continue
		}
		silent--
		for i, k := range a.marks {
			if !slices.ContainsFunc(a.marks[:i], func(h Mark) bool { return h.Server == k.Server }) {
				marked[k.Server]++
			}
			if f.bound[name] > now {
				bound[k.Server] = true
			}
		}
	}
	for _, server := range f.servers {
		marked := marked[server]
		_, looked := f.clear[server]
		switch {
		case first && f.alone && f.own[server] == nil && marked == 0:
			f.clear[server] = begun - int64(inForce)
		case f.own[server] != nil, blind, !looked, marked > 0 && (bound[server] || marked+silent >= f.majority()):
			f.clear[server], f.held[server] = now, now
		case marked > 0:
			f.clear[server] = now
		}
	}
}

// judge updates whether o, the mark of server, is in force, by a look that began after recent and after the mark was
// last stored.
func (f *Fleet) judge(server string, o *ownMark, recent, now int64) {
	after := max(recent, o.put)
	if begun, _ := f.quorum(after, now, isWitness); begun == 0 {
		return
	}
	valid := Mark{server, f.owner, max(o.first, f.valid(now))}
	holds := func(a answer) bool { return a.witness && a.marks.holds(valid) }
	begun, since := f.quorum(after, now, holds)
	if begun == 0 || server == reads && !o.respected() && !f.joined(valid, after) {
		o.since, o.until, o.acknowledged = 0, 0, 0
		return
	}
	if o.since == 0 {
		o.since = now
	}
	o.found, o.until = begun, since+int64(relied)
	asked := o.acknowledged == 0 && !o.respected() && now >= f.silent
	if asked && f.acknowledged(Mark{server, f.owner, o.first}, o.since, now) {
		o.acknowledged = now
	}
	if _, most := f.count(after, holds); most != 0 && server == reads && o.respected() {
		f.anchored = most
	}
}

// acknowledged reports whether all who are registered have acknowledged own, a mark in force since a time, by a look
// that began after that. Who registers later looks later, and finds it.
func (f *Fleet) acknowledged(own Mark, since, now int64) bool {
	if begun, _ := f.quorum(since-1, now, isWitness); begun == 0 {
		return false
	}
	var all Marks
	for _, a := range f.answers {
		if a.witness {
			all = all.merge(f.others(a.marks))
		}
	}
	return all.agree(own)
}
