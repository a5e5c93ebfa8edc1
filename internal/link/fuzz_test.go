package link

import (
	"strings"
	"testing"

	"mcmw/internal/protocol"
)

func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		"EN", "EN kk", "HD c5 kk", "HD c5 kl", "VA 3 f0 c4611686018427387904 kk X W",
		"VA -1 c5 kk", "HD kk", " EN", "HD\nc5", "SERVER_ERROR out of memory",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		flags := protocol.ForVersion
		if strings.HasPrefix(line, "VA") {
			flags = protocol.ForItem
		}
		look := Key("k").Ask(flags)
		found, err := decode(&look, []byte(line))
		if err == nil && (found.Held == strings.HasPrefix(strings.TrimSpace(line), "EN") || found.Size < 0 ||
			found.Held && !strings.Contains(line, " k")) {
			t.Errorf("%q was read as %+v", line, found)
		}
	})
}

func TestALookIsNotAnsweredWithAnotherKey(t *testing.T) {
	look := Key("k").Ask(protocol.ForVersion)
	for _, line := range []string{"HD c5 kl", "EN kl", "HD c5", "HD\tc5"} {
		if found, err := decode(&look, []byte(line)); err == nil {
			t.Errorf("%q was read as %+v", line, found)
		}
	}
}
