package collect

import "mcmw/internal/lab/record"

// speedUp puts what was measured by clocks that run so many times faster than those of the machines into the machines' time.
func speedUp(r *record.Run, dilation float64) {
	r.Seconds /= dilation
	for i := range r.Results {
		r.Results[i].Value *= record.PerTime(r.Results[i].Metric, dilation)
	}
	for _, windows := range [][]record.Window{r.Windows, r.HostSamples} {
		for i := range windows {
			w := &windows[i]
			w.Start, w.Seconds = w.Start/dilation, w.Seconds/dilation
			w.Value *= record.PerTime(w.Metric, dilation)
		}
	}
	for i := range r.Histograms {
		b := &r.Histograms[i]
		times := record.PerTime(b.Metric, dilation)
		b.Lower, b.Upper = b.Lower*times, b.Upper*times
	}
}
