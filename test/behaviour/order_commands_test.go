package behaviour_test

import "strconv"

// The possible replies to a write of a key that several connections write.
var (
	linesOfSet    = []string{"STORED"}
	linesOfAdd    = []string{"STORED", "NOT_STORED"}
	linesOfCas    = []string{"STORED", "EXISTS", "NOT_FOUND"}
	linesOfDelete = []string{"DELETED", "NOT_FOUND"}
)

// nonNumeric is the reply to incr and decr of a value that is not a number.
const nonNumeric = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"

// request adds a random request and its expected reply to b, and applies its effect to the model.
func (c *orderClient) request(b *batch) {
	b.begin()
	k := &c.own[c.rng.IntN(ownKeys)]
	quiet := c.rng.IntN(5) == 0
	switch p := c.rng.IntN(100); {
	case p < 15:
		c.get(b, k)
	case p < 23:
		c.multiGet(b)
	case p < 27:
		c.gets(b)
	case p < 40:
		c.store(b, "set", k, quiet)
	case p < 43:
		c.store(b, "add", k, quiet)
	case p < 46:
		c.store(b, "replace", k, quiet)
	case p < 50:
		c.extend(b, "append", k, quiet)
	case p < 54:
		c.extend(b, "prepend", k, quiet)
	case p < 62:
		c.arithmetic(b, k, quiet)
	case p < 65:
		c.remove(b, k, quiet)
	case p < 68:
		c.touch(b, k, quiet)
	case p < 70:
		c.gat(b)
	case p < 73:
		c.cas(b, k, quiet)
	case p < 78:
		c.metaGet(b, k, quiet)
	case p < 83:
		c.metaSet(b, k, quiet)
	case p < 85:
		c.metaDelete(b, k, quiet)
	case p < 87:
		c.metaArithmetic(b, k, quiet)
	case p < 88:
		b.send("mn\r\n")
		b.reply(false, "MN\r\n")
	default:
		c.sharedRequest(b, quiet)
	}
}

// expectValue adds the VALUE of k to the reply, if there is one.
func (b *batch) expectValue(k *ownKey, withCas bool) {
	if !k.exists {
		return
	}
	b.want = append(append(b.want, "VALUE "...), k.name...)
	b.want = strconv.AppendUint(append(b.want, ' '), uint64(k.flags), 10)
	b.want = strconv.AppendInt(append(b.want, ' '), int64(len(k.value)), 10)
	if withCas {
		b.want = append(b.want, ' ')
		b.expect(expect{kind: expectToken, own: k, version: k.version})
	}
	b.want = append(append(append(b.want, "\r\n"...), k.value...), "\r\n"...)
}

func (c *orderClient) get(b *batch, k *ownKey) {
	b.send("get ", k.name, "\r\n")
	b.expectValue(k, false)
	b.reply(false, "END\r\n")
}

// multiGet requests 2 to 12 keys, own and shared; some twice, some missing.
func (c *orderClient) multiGet(b *batch) {
	b.send("get")
	for range 2 + c.rng.IntN(11) {
		b.send(" ")
		switch c.rng.IntN(8) {
		case 0:
			c.askShared(b, c.rng.IntN(sharedValues), expectShared)
		case 1:
			i := c.rng.IntN(sharedCounters)
			b.send(c.shared.counters[i])
			b.expect(expect{kind: expectCounter, shared: i})
		default:
			k := &c.own[c.rng.IntN(ownKeys)]
			b.send(k.name)
			b.expectValue(k, false)
		}
	}
	b.send("\r\n")
	b.reply(false, "END\r\n")
}

func (c *orderClient) gets(b *batch) {
	b.send("gets")
	for range 1 + c.rng.IntN(3) {
		k := &c.own[c.rng.IntN(ownKeys)]
		b.send(" ", k.name)
		b.expectValue(k, true)
	}
	b.send("\r\n")
	b.reply(false, "END\r\n")
}

// gat touches and gets several keys, sometimes more than fit in one line to a server.
func (c *orderClient) gat(b *batch) {
	withCas := c.rng.IntN(3) == 0
	b.send(either(withCas, "gats ", "gat "))
	expired := c.rng.IntN(20) == 0
	if expired {
		b.send("-1")
	} else {
		b.send("0")
	}
	ask := func(k *ownKey) {
		b.send(" ", k.name)
		b.expectValue(k, withCas)
		if expired && k.exists {
			k.remove()
		}
	}
	if c.rng.IntN(100) == 0 {
		// At most 2,010 bytes: mcmw, like memcached, may close the connection before the end of a line of more than
		// 2,048 bytes arrives.
		for i := range 6 {
			ask(&c.own[4+i%2])
			ask(&c.own[3])
		}
		ask(&c.own[4])
	} else {
		for range 1 + c.rng.IntN(3) {
			ask(&c.own[c.rng.IntN(ownKeys)])
		}
	}
	b.send("\r\n")
	b.reply(false, "END\r\n")
}

// data adds the size and the rest of the line of a storage command, and the data block.
func (c *orderClient) data(b *batch, value []byte, behind string) {
	b.sendNumber(uint64(len(value)))
	b.send(behind, "\r\n")
	b.out = append(append(b.out, value...), "\r\n"...)
}

// either returns yes or no at random.
func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// classic returns the end of a classic command: " noreply" or nothing.
func classic(quiet bool) string { return either(quiet, " noreply", "") }

// fresh makes a new value for k.
func (c *orderClient) fresh(k *ownKey) []byte {
	c.seq++
	c.value = k.appendOwn(c.value[:0], c.rng, c.seq)
	return c.value
}

func (c *orderClient) piece(k *ownKey) []byte {
	c.seq++
	c.value = k.appendPiece(c.value[:0], c.rng, c.seq)
	return c.value
}

// store is set, add or replace.
func (c *orderClient) store(b *batch, command string, k *ownKey, quiet bool) {
	v, flags := c.fresh(k), c.rng.Uint32()
	b.send(command, " ", k.name, " ")
	b.sendNumber(uint64(flags))
	b.send(" 0 ")
	c.data(b, v, classic(quiet))
	if (command == "add" && k.exists) || (command == "replace" && !k.exists) {
		b.reply(quiet, "NOT_STORED\r\n")
		return
	}
	k.set(v, flags)
	b.reply(quiet, "STORED\r\n")
}

// extend is append or prepend; a value at its maximum size is replaced instead.
func (c *orderClient) extend(b *batch, command string, k *ownKey, quiet bool) {
	if !k.grows() {
		c.store(b, "set", k, quiet)
		return
	}
	v := c.piece(k)
	b.send(command, " ", k.name, " 7 0 ")
	c.data(b, v, classic(quiet))
	if !k.exists {
		b.reply(quiet, "NOT_STORED\r\n")
		return
	}
	k.put(v, command == "prepend")
	b.reply(quiet, "STORED\r\n")
}

func (c *orderClient) arithmetic(b *batch, k *ownKey, quiet bool) {
	if c.rng.IntN(8) > 0 {
		k = &c.own[ownKeys-1-c.rng.IntN(ownNumbers)]
	}
	down := c.rng.IntN(2) == 0
	delta := k.delta(c.rng, down)
	b.send(either(down, "decr ", "incr "), k.name, " ")
	b.sendNumber(delta)
	b.send(classic(quiet), "\r\n")
	switch {
	case !k.exists:
		b.reply(quiet, "NOT_FOUND\r\n")
	case !k.numeric:
		b.reply(quiet, nonNumeric)
	default:
		k.add(delta, down)
		if !quiet {
			b.want = append(append(b.want, k.value...), "\r\n"...)
		}
	}
}

func (c *orderClient) remove(b *batch, k *ownKey, quiet bool) {
	b.send("delete ", k.name, classic(quiet), "\r\n")
	if !k.exists {
		b.reply(quiet, "NOT_FOUND\r\n")
		return
	}
	k.remove()
	b.reply(quiet, "DELETED\r\n")
}

func (c *orderClient) touch(b *batch, k *ownKey, quiet bool) {
	expired := c.rng.IntN(10) == 0
	b.send("touch ", k.name, either(expired, " -1", " 0"), classic(quiet), "\r\n")
	if !k.exists {
		b.reply(quiet, "NOT_FOUND\r\n")
		return
	}
	if expired {
		k.remove()
	}
	b.reply(quiet, "TOUCHED\r\n")
}

// cas stores with the last cas seen of k, which may be outdated.
func (c *orderClient) cas(b *batch, k *ownKey, quiet bool) {
	if k.tokenVersion < 0 {
		c.gets(b)
		return
	}
	v, flags := c.fresh(k), c.rng.Uint32()
	b.send("cas ", k.name, " ")
	b.sendNumber(uint64(flags))
	b.send(" 0 ")
	b.sendNumber(uint64(len(v)))
	b.out = append(append(b.out, ' '), k.token...)
	b.send(classic(quiet), "\r\n")
	b.out = append(append(b.out, v...), "\r\n"...)
	switch {
	case !k.exists:
		b.reply(quiet, "NOT_FOUND\r\n")
	case k.version != k.tokenVersion:
		b.reply(quiet, "EXISTS\r\n")
	default:
		k.set(v, flags)
		b.reply(quiet, "STORED\r\n")
	}
}

// opaque adds a number that the reply, if there is one, must contain.
func (c *orderClient) opaque(b *batch, quiet, repliedTo bool) {
	c.seq++
	b.send(" O")
	b.sendNumber(uint64(c.seq))
	if quiet {
		b.send(" q")
	}
	b.send("\r\n")
	if repliedTo {
		b.want = strconv.AppendInt(append(b.want, " O"...), int64(c.seq), 10)
		b.want = append(b.want, "\r\n"...)
	}
}

func (c *orderClient) metaGet(b *batch, k *ownKey, quiet bool) {
	withValue, withKey, withCas := c.rng.IntN(4) > 0, c.rng.IntN(2) == 0, c.rng.IntN(4) == 0
	b.send("mg ", k.name)
	if !k.exists {
		b.reply(quiet, "EN")
		if withKey {
			b.send(" k")
			b.reply(quiet, " k"+k.name)
		}
		c.opaque(b, quiet, !quiet)
		return
	}
	if withValue {
		b.send(" v")
		b.want = strconv.AppendInt(append(b.want, "VA "...), int64(len(k.value)), 10)
	} else {
		b.reply(false, "HD")
	}
	if withKey {
		b.send(" k")
		b.want = append(append(b.want, " k"...), k.name...)
	}
	b.send(" f")
	b.want = strconv.AppendUint(append(b.want, " f"...), uint64(k.flags), 10)
	if withCas {
		b.send(" c")
		b.reply(false, " c")
		b.expect(expect{kind: expectToken, own: k, version: k.version})
	}
	c.opaque(b, quiet, true)
	if withValue {
		b.want = append(append(b.want, k.value...), "\r\n"...)
	}
}

// metaSet is ms in all its modes: set, add, replace, append, prepend, and with a cas.
func (c *orderClient) metaSet(b *batch, k *ownKey, quiet bool) {
	mode := []string{"S", "E", "R", "A", "P", "C"}[c.rng.IntN(6)]
	if (mode == "A" || mode == "P") && !k.grows() || mode == "C" && k.tokenVersion < 0 {
		mode = "S"
	}
	extends := mode == "A" || mode == "P"
	v, flags := []byte(nil), c.rng.Uint32()
	if extends {
		v = c.piece(k)
	} else {
		v = c.fresh(k)
	}
	b.send("ms ", k.name, " ")
	b.sendNumber(uint64(len(v)))
	b.send(" F")
	b.sendNumber(uint64(flags))
	code := "HD"
	if mode == "C" {
		b.send(" C")
		b.out = append(b.out, k.token...)
		switch {
		case !k.exists:
			code = "NF"
		case k.version != k.tokenVersion:
			code = "EX"
		}
	} else {
		b.send(" M", mode)
		if (mode == "E" && k.exists) || ((mode == "R" || extends) && !k.exists) {
			code = "NS"
		}
	}
	replied := !quiet || code != "HD"
	b.reply(!replied, code)
	c.opaque(b, quiet, replied)
	b.out = append(append(b.out, v...), "\r\n"...)
	switch {
	case code != "HD":
	case extends:
		k.put(v, mode == "P")
	default:
		k.set(v, flags)
	}
}

func (c *orderClient) metaDelete(b *batch, k *ownKey, quiet bool) {
	b.send("md ", k.name)
	if !k.exists {
		b.reply(false, "NF")
		c.opaque(b, quiet, true)
		return
	}
	k.remove()
	b.reply(quiet, "HD")
	c.opaque(b, quiet, !quiet)
}

func (c *orderClient) metaArithmetic(b *batch, k *ownKey, quiet bool) {
	if !k.numeric {
		k = &c.own[ownKeys-1]
	}
	down := c.rng.IntN(2) == 0
	delta := k.delta(c.rng, down)
	b.send("ma ", k.name, " v D")
	b.sendNumber(delta)
	b.send(either(down, " MD", " MI"))
	if !k.exists {
		b.reply(false, "NF")
		c.opaque(b, quiet, true)
		return
	}
	k.add(delta, down)
	if !quiet {
		b.want = strconv.AppendInt(append(b.want, "VA "...), int64(len(k.value)), 10)
	}
	c.opaque(b, quiet, !quiet)
	if !quiet {
		b.want = append(append(b.want, k.value...), "\r\n"...)
	}
}

// askShared gets a shared key, and records which of the connection's own values it may have at this moment.
func (c *orderClient) askShared(b *batch, i int, kind expectKind) {
	b.send(c.shared.values[i])
	b.expect(expect{kind: kind, shared: i, from: c.mine[i], up: c.issued[i]})
}

// sharedRequest uses a key that other connections also write.
func (c *orderClient) sharedRequest(b *batch, quiet bool) {
	i := c.rng.IntN(sharedValues)
	switch c.rng.IntN(12) {
	case 0, 1, 2:
		c.storeShared(b, "set ", i, 0, quiet, linesOfSet)
		c.mine[i] = c.issued[i]
	case 3:
		c.storeShared(b, "add ", i, 0, quiet, linesOfAdd)
	case 4:
		if c.casOf[i] > 0 {
			c.storeShared(b, "cas ", i, c.casOf[i], quiet, linesOfCas)
			return
		}
		fallthrough
	case 5:
		b.send("gets ")
		c.askShared(b, i, expectSharedCas)
		b.send("\r\n")
		b.reply(false, "END\r\n")
	case 6:
		b.send("delete ", c.shared.values[i], classic(quiet), "\r\n")
		c.mine[i] = c.issued[i] + 1
		b.expectLine(quiet, linesOfDelete)
	case 7, 8:
		b.send("get ")
		c.askShared(b, i, expectShared)
		b.send("\r\n")
		b.reply(false, "END\r\n")
	default:
		i %= sharedCounters
		b.send("incr ", c.shared.counters[i], " 1", classic(quiet), "\r\n")
		c.increments[i]++
		if !quiet {
			b.expect(expect{kind: expectIncremented, shared: i})
			b.reply(false, "\r\n")
		}
	}
}

// storeShared stores a tagged value; cas is sent unless 0.
func (c *orderClient) storeShared(b *batch, command string, i int, cas uint64, quiet bool, lines []string) {
	c.issued[i]++
	b.send(command, c.shared.values[i], " ")
	b.sendNumber(uint64(c.number))
	b.send(" 0 ")
	c.value = c.tag.appendValue(c.value[:0], c.shared.values[i], c.number, c.issued[i])
	b.sendNumber(uint64(len(c.value)))
	if cas > 0 {
		b.send(" ")
		b.sendNumber(cas)
	}
	b.send(classic(quiet), "\r\n")
	b.out = append(append(b.out, c.value...), "\r\n"...)
	b.expectLine(quiet, lines)
}

// expectLine adds a reply that is one of several lines.
func (b *batch) expectLine(quiet bool, lines []string) {
	if !quiet {
		b.expect(expect{kind: expectLine, lines: lines})
	}
}
