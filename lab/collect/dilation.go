package collect

import "mcmw/lab/record"

// speedUp converts a run that was measured in real time to the time of machines with a dilation.
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
		factor := record.PerTime(b.Metric, dilation)
		b.Lower, b.Upper = b.Lower*factor, b.Upper*factor
	}
}
