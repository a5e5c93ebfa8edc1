package admin

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"mcmw/internal/stats"
)

// keptSnapshots is the number of snapshots to which a later request may refer: enough for the latest one of several
// clients.
const keptSnapshots = 16

// snapshots keeps the newest snapshots that /debug/histogram has returned.
type snapshots struct {
	start string // distinguishes the snapshots of this process from those of another

	mu    sync.Mutex // guards the fields below; nothing is computed or written while it is held
	taken int        // number of snapshots so far
	kept  [keptSnapshots]keptSnapshot
}

type keptSnapshot struct {
	id string
	at time.Time
	*stats.Snapshot
}

// keep stores s, which was taken at now, under a new ID.
func (k *snapshots) keep(s *stats.Snapshot, now time.Time) keptSnapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken++
	kept := keptSnapshot{id: fmt.Sprintf("%s-%d", k.start, k.taken), at: now, Snapshot: s}
	k.kept[k.taken%keptSnapshots] = kept
	return kept
}

// find returns the snapshot with this ID, and false if it is no longer kept or never existed.
func (k *snapshots) find(id string) (keptSnapshot, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.kept {
		if s.Snapshot != nil && s.id == id {
			return s, true
		}
	}
	return keptSnapshot{}, false
}

// distribution is the JSON answer of /debug/histogram.
type distribution struct {
	ID     string   `json:"id"`    // of the window's end; a later request may pass it as since
	Since  string   `json:"since"` // the ID of the window's beginning; "": the start
	Of     string   `json:"of"`
	Step   int64    `json:"step"`  // ns
	From   int64    `json:"from"`  // ms since 1970
	Until  int64    `json:"until"` // ms since 1970
	Count  uint64   `json:"count"`
	Sum    uint64   `json:"sum"`    // ns
	Counts []uint64 `json:"counts"` // counts[i]: times from i*step up to (i+1)*step; zeros at the end are left out
	Beyond uint64   `json:"beyond"` // times after the last step, which ends at or before 200 ms
}

// snapshotHeader is the header with the answer's snapshot ID, in all formats.
const snapshotHeader = "Mcmw-Snapshot"

// serveHistogram answers with exact counts, in linear steps, of the times of a window. Its parameters are:
//
//	step    width of the steps, a multiple of 100us up to 200ms; default 100us
//	of      response (all commands), command:CLASS, stage:STAGE or server:NAME; default response
//	since   the ID of an earlier answer, at which the window begins; default: the start of the process
//	format  json, csv, or hgrm (HdrHistogram's percentiles); default json
func (s *Server) serveHistogram(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, format string, args ...any) { http.Error(w, fmt.Sprintf(format, args...), status) }
	step := 100 * time.Microsecond
	if v := r.FormValue("step"); v != "" {
		var err error
		if step, err = time.ParseDuration(v); err != nil {
			refuse(http.StatusBadRequest, "step=%.40q: want a duration such as 100us", v)
			return
		}
	}
	format := r.FormValue("format")
	write, ok := histogramFormats[format]
	if !ok {
		refuse(http.StatusBadRequest, "format=%.40q: want json, csv or hgrm", format)
		return
	}
	from := keptSnapshot{at: s.started}
	if since := r.FormValue("since"); since != "" {
		if from, ok = s.snapshots.find(since); !ok {
			refuse(http.StatusGone, "since=%.40q: no such snapshot; the newest %d of this process are kept", since,
				keptSnapshots)
			return
		}
	}
	until := s.snapshots.keep(s.options.Registry.Snapshot(), time.Now())
	window := until.Snapshot
	if from.Snapshot != nil {
		window = window.Sub(from.Snapshot)
	}
	of := cmp.Or(r.FormValue("of"), "response")
	h := histogramOf(window, of)
	if h == nil {
		refuse(http.StatusBadRequest, "of=%.40q: want response, command:, stage: or server: with a name", of)
		return
	}
	counts, beyond, err := h.Linear(step)
	if err != nil {
		refuse(http.StatusBadRequest, "step=%.40q: %v", r.FormValue("step"), err)
		return
	}
	for len(counts) > 0 && counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(snapshotHeader, until.id)
	write(w, h, &distribution{
		ID: until.id, Since: from.id, Of: of, Step: int64(step), From: from.at.UnixMilli(), Until: until.at.UnixMilli(),
		Count: h.Count(), Sum: h.Sum(), Counts: counts, Beyond: beyond,
	})
}

// histogramOf returns the histogram that of names; nil if there is none.
func histogramOf(s *stats.Snapshot, of string) *stats.Histogram {
	if of == "response" {
		all := s.All()
		return &all
	}
	kind, name, _ := strings.Cut(of, ":")
	switch kind {
	case "command":
		if i := slices.Index(names[stats.Class](int(stats.NumClasses)), name); i >= 0 {
			return &s.Response[i]
		}
	case "stage":
		if i := slices.Index(names[stats.Stage](int(stats.NumStages)), name); i >= 0 {
			return &s.Stages[i]
		}
	case "server":
		for i := range s.Servers {
			if s.Servers[i].Name == name {
				return &s.Servers[i].Times
			}
		}
	}
	return nil
}

// histogramFormats are the functions that write an answer. An error means that the client is gone.
var histogramFormats = map[string]func(w http.ResponseWriter, h *stats.Histogram, d *distribution){
	"": writeJSON, "json": writeJSON, "csv": writeCSV, "hgrm": writeHGRM,
}

func writeJSON(w http.ResponseWriter, _ *stats.Histogram, d *distribution) {
	answerJSON(w, d)
}

func writeCSV(w http.ResponseWriter, _ *stats.Histogram, d *distribution) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	var b strings.Builder
	b.WriteString("lower_us,upper_us,count\n")
	us := int64(time.Microsecond)
	for i, n := range d.Counts {
		fmt.Fprintf(&b, "%d,%d,%d\n", int64(i)*d.Step/us, int64(i+1)*d.Step/us, n)
	}
	if d.Beyond > 0 {
		fmt.Fprintf(&b, "%d,inf,%d\n", int64(200*time.Millisecond)/d.Step*d.Step/us, d.Beyond)
	}
	_, _ = io.WriteString(w, b.String())
}

// writeHGRM writes a percentile for each non-empty bucket, in milliseconds, in the format of HdrHistogram's tools.
func writeHGRM(w http.ResponseWriter, h *stats.Histogram, _ *distribution) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	ms := func(ns float64) float64 { return ns / float64(time.Millisecond) }
	var b strings.Builder
	fmt.Fprintf(&b, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")
	var below uint64
	for i, n := range h.Buckets() {
		below += n
		share := float64(below) / float64(h.Count())
		fmt.Fprintf(&b, "%12.4f %2.12f %10d", ms(float64(stats.Bound(min(i+1, stats.NumBuckets-1)))), share, below)
		if below < h.Count() {
			fmt.Fprintf(&b, " %14.2f", 1/(1-share))
		}
		b.WriteByte('\n')
	}
	m := h.Moments()
	fmt.Fprintf(&b, "#[Mean    = %12.4f, StdDeviation   = %12.4f]\n", ms(m.Mean), ms(m.StdDev()))
	fmt.Fprintf(&b, "#[Max     = %12.4f, Total count    = %12d]\n", ms(float64(h.Max())), h.Count())
	fmt.Fprintf(&b, "#[Buckets = %12d, SubBuckets     = %12d]\n", 1, stats.NumBuckets)
	_, _ = io.WriteString(w, b.String())
}
