package worker

// Crew is the workers that serve one lane. It has a number of places, and members beyond them: a member that waits for a
// server which does not answer gives up its place, and another takes it, so that the lane is served by as many as before.
type Crew struct {
	// places holds a token for every place that nobody has. Members -> members; never closed.
	places chan struct{}
}

// NewCrew returns a crew with room for places at work.
func NewCrew(places int) *Crew { return &Crew{places: make(chan struct{}, places)} }

// take waits for a place.
func (c *Crew) take() { <-c.places }

// leave gives a place up. It never waits.
func (c *Crew) leave() { c.places <- struct{}{} }
