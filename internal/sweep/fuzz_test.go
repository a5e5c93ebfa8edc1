package sweep

import "testing"

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"began":1,"ended":2,"rounds":3,"placement":"x","keys":4,"differ":5}`))
	f.Add([]byte(`{}{}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r := decodeRecord(b); r != nil && (r.Began < 0 || r.Ended < 0 || r.Rounds < 0) {
			t.Errorf("%q was read as %+v", b, r)
		}
	})
}
