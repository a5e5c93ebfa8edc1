package admin

import "mcmw/internal/stats"

// The families of the metrics of recipients, pools that get what other pools did, later.
var (
	perFollow = listed(func(s *stats.Snapshot) []stats.Follow { return s.Follows },
		func(f *stats.Follow) []string { return []string{f.Of, f.To} }, "pool", "follower")
	perShadow = listed(func(s *stats.Snapshot) []stats.ShadowSnapshot { return s.Shadows },
		func(s *stats.ShadowSnapshot) []string { return []string{s.Of, s.To} }, "pool", "shadow")
)

// recipientMetrics are the metrics of recipients.
var recipientMetrics = []metric[*stats.Snapshot]{
	perFollow.value("follow_debts", "Keys whose latest write the following pool has not got yet.",
		func(f *stats.Follow) any { return f.Debts }),
	perFollow.value("follow_age_seconds",
		"How long the oldest write that the following pool has not got has been waiting.",
		func(f *stats.Follow) any { return f.Age }),
	perFollow.value("follow_doubtful", "1 if the following pool may lack writes that are not owed to it, else 0.",
		func(f *stats.Follow) any { return !f.Doubt.IsZero() }),
	perFollow.by("result", "follow_keys_total",
		"Keys owed to the following pool that were delivered, became deletes because their copy failed, or were "+
			"dropped for lack of memory.",
		func(f *stats.Follow) values {
			return values{"delivered": f.Delivered, "delete": f.Deletes, "dropped": f.Dropped}
		}),
	perShadow.value("shadow_requests_total",
		"Requests of the pool that were copied to its shadow; a retrieval counts once per key.",
		func(s *stats.ShadowSnapshot) any { return s.Copied }),
	perShadow.by("reason", "shadow_dropped_total",
		"Requests of the pool that were not copied to its shadow, because too many copies were waiting (queue), or "+
			"the waiting ones were too large in total (memory).",
		func(s *stats.ShadowSnapshot) values { return byName[stats.ShadowDrop](s.Dropped[:]) }),
	perShadow.by("result", "shadow_answers_total",
		"Copied requests, by how the shadow's answer compares with the client's.",
		func(s *stats.ShadowSnapshot) values { return byName[stats.ShadowResult](s.Answers[:]) }),
	perShadow.value("shadow_delay_seconds_total",
		"Time from the client's answer until the shadow's answer, summed over the answers.",
		func(s *stats.ShadowSnapshot) any { return seconds(s.Delay) }),
}

// Recipients is the part of a Report about recipients.
type Recipients struct {
	// Shadows and ShadowResults are names for the shadows of points and for their answers.
	Shadows       []ShadowName `json:"shadows,omitempty"`
	ShadowResults []string     `json:"shadowResults,omitempty"`
	// Follows are the pools that follow others.
	Follows []stats.Follow `json:"follows,omitempty"`
}

// ShadowName says that the pool To is the shadow of the pool Of.
type ShadowName struct {
	Of string `json:"of"`
	To string `json:"to"`
}

// ShadowLoad is the load of a shadow in a window, in rates per second.
type ShadowLoad struct {
	Rate    float64                         `json:"rate"`    // copied requests
	Dropped float64                         `json:"dropped"` // requests that were not copied
	Answers [stats.NumShadowResults]float64 `json:"answers"` // by result
	Delay   float64                         `json:"delay"`   // mean time in ns from the client's answer to the shadow's
}

// recipients returns Report.Recipients.
func recipients(s *stats.Snapshot) Recipients {
	r := Recipients{Follows: s.Follows}
	for _, shadow := range s.Shadows {
		r.Shadows = append(r.Shadows, ShadowName{shadow.Of, shadow.To})
		r.ShadowResults = names[stats.ShadowResult](int(stats.NumShadowResults))
	}
	return r
}

// shadowLoads returns the loads of the shadows in the window s. rate returns the rate of a count.
func shadowLoads(s *stats.Snapshot, rate func(n uint64) float64) (all []ShadowLoad) {
	for _, shadow := range s.Shadows {
		l := ShadowLoad{Rate: rate(shadow.Copied)}
		for _, n := range shadow.Dropped {
			l.Dropped += rate(n)
		}
		var answers uint64
		for result, n := range shadow.Answers {
			l.Answers[result] = rate(n)
			answers += n
		}
		l.Delay = float64(shadow.Delay) / float64(max(answers, 1))
		all = append(all, l)
	}
	return all
}
