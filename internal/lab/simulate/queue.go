package simulate

// event is the end of a service or of a think time, or an arrival.
type event struct {
	time    float64
	token   int32 // who; an arrival has the class instead
	station int32 // where; thinking or arriving
	version uint32
}

// The stations of events that happen at none.
const (
	thinking = -1
	arriving = -2
)

// calendar holds the events to come, a heap with four children per parent.
type calendar []event

func (c *calendar) push(e event) {
	h := append(*c, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent].time <= e.time {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*c = h
}

// pop returns the next event; there must be one.
func (c *calendar) pop() event {
	h := *c
	first := h[0]
	e := h[len(h)-1]
	h = h[:len(h)-1]
	*c = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for k := child + 1; k < min(child+4, len(h)); k++ {
			if h[k].time < h[least].time {
				least = k
			}
		}
		if h[least].time >= e.time {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
	return first
}

// line is a queue of tokens.
type line struct {
	ring  []int32
	first int
	count int
}

func (l *line) push(t int32) {
	if l.count == len(l.ring) {
		ring := make([]int32, max(16, 2*len(l.ring)))
		for i := range l.count {
			ring[i] = l.ring[(l.first+i)&(len(l.ring)-1)]
		}
		l.ring, l.first = ring, 0
	}
	l.ring[(l.first+l.count)&(len(l.ring)-1)] = t
	l.count++
}

// pop returns the first; there must be one.
func (l *line) pop() int32 {
	t := l.ring[l.first]
	l.first = (l.first + 1) & (len(l.ring) - 1)
	l.count--
	return t
}
