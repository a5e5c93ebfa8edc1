package sweep

import (
	"strings"
	"testing"
)

func FuzzReadLook(f *testing.F) {
	for _, line := range []string{"EN", "EN kk", "HD c5 kk", "HD c5 kl", "VA 3 f0 c4611686018427387904 kk X W", "VA -1 c5 kk", "HD kk", " EN", "HD\nc5", "SERVER_ERROR out of memory"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		found, err := readLook(AppendLook(nil, "k", strings.HasPrefix(line, "VA")), line)
		if err == nil && (found.Held == strings.HasPrefix(strings.TrimSpace(line), "EN") || found.size < -1 || found.Held && !strings.Contains(line, " k")) {
			t.Errorf("%q was read as %+v", line, found)
		}
	})
}

func TestALookIsNotAnsweredWithAnotherKey(t *testing.T) {
	for _, line := range []string{"HD c5 kl", "EN kl", "HD c5", "HD\tc5"} {
		if found, err := readLook(AppendLook(nil, "k", false), line); err == nil {
			t.Errorf("%q was read as %+v", line, found)
		}
	}
}

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
