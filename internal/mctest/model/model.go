// Package model models a memcached as a value: its items and its answers, without sockets and clock. A Server can be
// copied and compared, so that a test can explore every order in which requests reach several of them. It answers as
// memcached 1.6.38 does; its test compares it with a real one. Test use only.
//
// Time stands still: an item that expires in the past is removed at once, any other stays until Evict.
package model

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcmw/internal/mctest/strict"
)

// Server is one memcached. The zero value is an empty server.
type Server struct {
	// Busy says that readers hold references to the items, so that incr and decr replace an item instead of changing
	// it.
	Busy bool

	items map[string]Item
	// casID is the number of cas values that the server has chosen; the first is 2.
	casID uint64
}

// Item is a value under a key.
type Item struct {
	Value   string
	Flags   uint32
	CAS     uint64
	Exptime int64 // seconds from now, 0: never
	Stale   bool  // marked by md I, or by ms I with an older cas
	Won     bool  // a client was told to renew the item
	Binary  bool  // stored by a command with a key in base64
}

// Clone returns a copy of s.
func (s *Server) Clone() *Server {
	return &Server{Busy: s.Busy, items: maps.Clone(s.items), casID: s.casID}
}

// Get returns what s holds under key.
func (s *Server) Get(key string) (Item, bool) {
	it, ok := s.items[key]
	return it, ok
}

// Put stores it under key.
func (s *Server) Put(key string, it Item) { s.put(key, it) }

// Keys returns the keys that s holds, sorted.
func (s *Server) Keys() []string { return slices.Sorted(maps.Keys(s.items)) }

// Evict removes key, as a full server does.
func (s *Server) Evict(key string) { delete(s.items, key) }

// AppendState appends a text that is equal for two servers exactly if they answer equally from now on.
func (s *Server) AppendState(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%t %d", s.Busy, s.casID)
	for _, key := range s.Keys() {
		dst = fmt.Appendf(dst, " %q%+v", key, s.items[key])
	}
	return dst
}

func (s *Server) nextCAS() uint64 {
	s.casID++
	return s.casID + 1
}

// put stores it, unless it has expired.
func (s *Server) put(key string, it Item) {
	if s.items == nil {
		s.items = map[string]Item{}
	}
	s.items[key] = it
	if it.Exptime < 0 {
		delete(s.items, key)
	}
}

// Texts of replies.
const (
	notNumeric = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
	notFound   = "NOT_FOUND\r\n"
	end        = "END\r\n"
)

// Do serves a request that package strict accepted, and returns the reply, which is empty if quiet mode omits it. It
// panics on commands that the model does not know: stats and the administration of memory.
func (s *Server) Do(q *strict.Request) string {
	w := strings.Split(q.Line, " ")
	switch w[0] {
	case "get", "gets":
		return s.retrieve(w[0] == "gets", w[1:])
	case "gat", "gats":
		var out strings.Builder
		for _, key := range w[2:] {
			out.WriteString(strings.TrimSuffix(s.retrieve(w[0] == "gats", []string{key}), end))
			s.touch(key, w[1])
		}
		return out.String() + end
	case "set", "add", "replace", "append", "prepend", "cas":
		return s.store(w, q.Data)
	case "delete":
		if _, ok := s.items[w[1]]; !ok {
			return notFound
		}
		delete(s.items, w[1])
		return "DELETED\r\n"
	case "incr", "decr":
		it, ok := s.items[w[1]]
		if !ok {
			return notFound
		}
		number, ok := s.add(&it, w[0] == "incr", unsigned(w[2]))
		if !ok {
			return notNumeric
		}
		s.put(w[1], it)
		return number + "\r\n"
	case "touch":
		if !s.touch(w[1], w[2]) {
			return notFound
		}
		return "TOUCHED\r\n"
	case "flush_all":
		clear(s.items)
		return "OK\r\n"
	case "version":
		return "VERSION 1.6.38\r\n"
	case "verbosity":
		return "OK\r\n"
	case "mn":
		return "MN\r\n"
	case "mg", "ms", "md", "ma":
		return s.meta(w, q)
	case "me":
		it, ok := s.items[q.Keys[0]]
		if !ok {
			return "EN\r\n"
		}
		return fmt.Sprintf("ME %s exp=%d la=0 cas=%d fetch=no cls=1 size=%d\r\n", w[1], cmp.Or(it.Exptime, -1), it.CAS,
			len(it.Value))
	}
	panic(fmt.Sprintf("the model of memcached has no answer to %q", q.Line))
}

func (s *Server) retrieve(withCAS bool, keys []string) string {
	var out strings.Builder
	for _, key := range keys {
		it, ok := s.items[key]
		if !ok {
			continue
		}
		fmt.Fprintf(&out, "VALUE %s %d %d", key, it.Flags, len(it.Value))
		if withCAS {
			fmt.Fprintf(&out, " %d", it.CAS)
		}
		fmt.Fprintf(&out, "\r\n%s\r\n", it.Value)
	}
	out.WriteString(end)
	return out.String()
}

func (s *Server) touch(key, exptime string) bool {
	it, ok := s.items[key]
	if ok {
		it.Exptime = signed(exptime)
		s.put(key, it)
	}
	return ok
}

// store serves a classic storage command.
func (s *Server) store(w []string, data string) string {
	mode, compare := map[string]byte{
		"set": 'S', "cas": 'S', "add": 'E', "replace": 'R', "append": 'A',
		"prepend": 'P',
	}[w[0]], uint64(0)
	if w[0] == "cas" {
		compare = unsigned(w[5])
	}
	it := Item{Value: data, Flags: uint32(unsigned(w[2])), Exptime: signed(w[3])}
	_, code := s.write(w[1], it, writing{mode: mode, compares: w[0] == "cas", compare: compare})
	return map[string]string{"HD": "STORED\r\n", "NS": "NOT_STORED\r\n", "EX": "EXISTS\r\n", "NF": notFound}[code]
}

// writing is how an item is written.
type writing struct {
	mode       byte // S set, E add, R replace, A append, P prepend
	compares   bool
	compare    uint64
	late       bool // if compare is older than the item's cas, the new item is stored as stale
	vivifies   bool // append and prepend create a missing item
	vivifyTime int64
	cas        uint64 // explicit cas; 0: the server chooses one
}

// write serves a storage command, and returns the item that the reply shows.
func (s *Server) write(key string, it Item, how writing) (stored Item, code string) {
	it.CAS = how.cas
	if how.cas == 0 {
		it.CAS = s.nextCAS()
	}
	refused := Item{Value: it.Value} // what the reply shows after a refusal
	old, exists := s.items[key]
	compares := how.compares && how.compare != 0
	switch how.mode {
	case 'E':
		if exists {
			return refused, "NS"
		}
	case 'A', 'P':
		switch {
		case !exists && !how.vivifies:
			return refused, "NS"
		case !exists:
			it.Exptime = how.vivifyTime
		case compares && how.compare != old.CAS:
			return refused, "EX"
		default:
			value := old.Value + it.Value
			if how.mode == 'P' {
				value = it.Value + old.Value
			}
			it = Item{Value: value, Flags: old.Flags, Exptime: old.Exptime, CAS: it.CAS}
		}
	default:
		switch {
		case how.compares && !exists:
			return refused, "NF"
		case !how.compares && !exists && how.mode == 'R':
			return refused, "NS"
		case how.compares && compares && how.compare == old.CAS, !how.compares:
		case compares && how.late && how.compare < old.CAS:
			it.Exptime, it.Stale, it.Won = old.Exptime, true, old.Won
		default:
			return refused, "EX"
		}
	}
	s.put(key, it)
	return it, "HD"
}

// add increments or decrements the number in it. Text after a space is ignored.
func (s *Server) add(it *Item, up bool, delta uint64) (number string, ok bool) {
	before, _, _ := strings.Cut(it.Value, " ")
	value, err := strconv.ParseUint(before, 10, 64)
	if err != nil {
		return "", false
	}
	switch {
	case up:
		value += delta
	case delta > value:
		value = 0
	default:
		value -= delta
	}
	number = strconv.FormatUint(value, 10)
	it.CAS = s.nextCAS()
	if len(number) <= len(it.Value) && !s.Busy { // in place, padded with spaces
		it.Value = number + strings.Repeat(" ", len(it.Value)-len(number))
	} else {
		*it = Item{Value: number, Flags: it.Flags, Exptime: it.Exptime, CAS: it.CAS}
	}
	return number, true
}

// flags are the flags of a meta command: letter -> argument.
type flags map[byte]string

func (f flags) has(letter byte) bool {
	_, ok := f[letter]
	return ok
}

// meta serves mg, ms, md and ma.
func (s *Server) meta(w []string, q *strict.Request) string {
	first, key := 2, q.Keys[0]
	if w[0] == "ms" {
		first = 3
	}
	f := flags{}
	for _, word := range w[first:] {
		f[word[0]] = word[1:]
	}
	var code, value string
	var it Item
	var known bool // whether the reply shows it
	switch w[0] {
	case "mg":
		return s.metaGet(w[1], key, f, w[first:])
	case "ms":
		mode := byte('S')
		if f.has('M') {
			mode = f['M'][0]
		}
		it, code = s.write(key, Item{
			Value: q.Data, Flags: uint32(unsigned(f['F'])), Exptime: signed(f['T']),
			Binary: f.has('b'),
		}, writing{
			mode: mode, compares: f.has('C'), compare: unsigned(f['C']), late: f.has('I'),
			vivifies: f.has('N'), vivifyTime: signed(f['N']), cas: unsigned(f['E']),
		})
		known = true
	case "md":
		code = s.metaDelete(key, f)
	case "ma":
		var vivified bool
		it, value, code, vivified = s.metaAdd(key, f)
		if vivified {
			delete(f, 'q') // answered even in quiet mode
		}
		if code == notNumeric {
			return code
		}
		known = code == "HD"
	}
	if f.has('q') && code == "HD" {
		return ""
	}
	var out strings.Builder
	if known && w[0] == "ma" && f.has('v') {
		fmt.Fprintf(&out, "VA %d", len(value))
	} else {
		out.WriteString(code)
	}
	for _, word := range w[first:] {
		switch {
		case word[0] == 'O':
			out.WriteString(" " + word)
		case word[0] == 'k':
			out.WriteString(showKey(key, f.has('b')))
		case word[0] == 'c' && known:
			fmt.Fprintf(&out, " c%d", it.CAS)
		case word[0] == 's' && w[0] == "ms":
			fmt.Fprintf(&out, " s%d", len(it.Value))
		case word[0] == 't' && known && w[0] == "ma":
			out.WriteString(showTime(it))
		}
	}
	out.WriteString("\r\n")
	if known && w[0] == "ma" && f.has('v') {
		out.WriteString(value + "\r\n")
	}
	return out.String()
}

// metaGet serves mg.
func (s *Server) metaGet(shown, key string, f flags, words []string) string {
	it, ok := s.items[key]
	made := false
	if !ok && f.has('N') {
		cas := unsigned(f['E'])
		if !f.has('E') {
			cas = s.nextCAS()
		}
		it, ok, made = Item{CAS: cas}, true, true
	}
	var out strings.Builder
	if !ok {
		if f.has('q') {
			return ""
		}
		out.WriteString("EN")
		for _, word := range words {
			switch word[0] {
			case 'O':
				out.WriteString(" " + word)
			case 'k':
				out.WriteString(" k" + shown)
				if f.has('b') {
					out.WriteString(" b")
				}
			}
		}
		return out.String() + "\r\n"
	}
	if f.has('v') {
		fmt.Fprintf(&out, "VA %d", len(it.Value))
	} else {
		out.WriteString("HD")
	}
	won := made
	for _, word := range words {
		switch word[0] {
		case 'T':
			it.Exptime = signed(f['T'])
		case 'N':
			if made {
				it.Exptime = signed(f['N'])
			}
		case 'R':
			won = won || !it.Won && !made && it.Exptime != 0 && it.Exptime < signed(f['R'])
		case 's':
			fmt.Fprintf(&out, " s%d", len(it.Value))
		case 't':
			out.WriteString(showTime(it))
		case 'c':
			fmt.Fprintf(&out, " c%d", it.CAS)
		case 'f':
			fmt.Fprintf(&out, " f%d", it.Flags)
		case 'O':
			out.WriteString(" " + word)
		case 'k':
			out.WriteString(showKey(key, it.Binary))
		}
	}
	if it.Won {
		out.WriteString(" Z")
	}
	if it.Stale {
		out.WriteString(" X")
		won = won || !it.Won
	}
	if won {
		out.WriteString(" W")
		it.Won = true
	}
	out.WriteString("\r\n")
	if f.has('v') {
		out.WriteString(it.Value + "\r\n")
	}
	s.put(key, it)
	return out.String()
}

// metaDelete serves md and returns its code.
func (s *Server) metaDelete(key string, f flags) string {
	it, ok := s.items[key]
	switch {
	case !ok:
		return "NF"
	case f.has('C') && unsigned(f['C']) != it.CAS:
		return "EX"
	}
	if f.has('x') { // the item stays, empty
		it = Item{CAS: it.CAS, Exptime: signed(f['T'])}
		if f.has('E') {
			it.CAS = unsigned(f['E'])
		}
		s.put(key, it)
	}
	switch {
	case f.has('I'):
		if f.has('T') {
			it.Exptime = signed(f['T'])
		}
		it.Stale, it.Won = true, false
		if it.CAS = unsigned(f['E']); !f.has('E') {
			it.CAS = s.nextCAS()
		}
		s.put(key, it)
	case !f.has('x'):
		delete(s.items, key)
	}
	return "HD"
}

// metaAdd serves ma. It returns the item that the reply shows, its number, the reply's code, and whether the item was
// created.
func (s *Server) metaAdd(key string, f flags) (it Item, number, code string, vivified bool) {
	delta := uint64(1)
	if f.has('D') {
		delta = unsigned(f['D'])
	}
	it, ok := s.items[key]
	switch {
	case ok && it.Value == "":
		return it, "", notNumeric, false
	case ok && unsigned(f['C']) != 0 && unsigned(f['C']) != it.CAS:
		return it, "", "EX", false
	case ok:
		before := len(it.Value)
		if number, ok = s.add(&it, f['M'] != "D" && f['M'] != "-", delta); !ok {
			return it, "", notNumeric, false
		}
		if s.Busy || len(number) > before {
			// memcached has put a new item in place, but applies E and T to the old one.
			s.put(key, it)
			if f.has('E') {
				it.CAS = unsigned(f['E'])
			}
			return it, number, "HD", false
		}
		if f.has('E') {
			it.CAS = unsigned(f['E'])
		}
	case f.has('N'):
		number = strconv.FormatUint(unsigned(f['J']), 10)
		it = Item{Value: number, CAS: unsigned(f['E']), Exptime: signed(f['N'])}
		if !f.has('E') {
			it.CAS = s.nextCAS()
		}
		vivified = true
	default:
		return it, "", "NF", false
	}
	if f.has('T') {
		it.Exptime = signed(f['T'])
	}
	s.put(key, it)
	return it, number, "HD", vivified
}

func showKey(key string, binary bool) string {
	if binary {
		return " k" + base64.StdEncoding.EncodeToString([]byte(key)) + " b"
	}
	return " k" + key
}

func showTime(it Item) string {
	return fmt.Sprintf(" t%d", cmp.Or(it.Exptime, -1))
}

// unsigned and signed parse numbers that package strict accepted; "" is 0.
func unsigned(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func signed(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return max(n, math.MinInt32)
}
