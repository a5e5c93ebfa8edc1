package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

const commit = "64f9e3a6beb0d4ceb14e79942e1d704cf975b4ab"

// built returns the information that the toolchain records for a build from a repository.
func built(mainVersion, modified string) *debug.BuildInfo {
	build := &debug.BuildInfo{Main: debug.Module{Version: mainVersion}}
	if modified != "" {
		build.Settings = []debug.BuildSetting{
			{Key: "vcs.revision", Value: commit},
			{Key: "vcs.modified", Value: modified},
		}
	}
	return build
}

func TestEveryKindOfBuildShowsItsVersionCommitAndChanges(t *testing.T) {
	pseudo := "v0.0.0-20261122144436-64f9e3a6beb0"
	for _, tc := range []struct {
		how, linker string
		build       *debug.BuildInfo
		want        string
	}{
		{"make build", "v0.3.0", built(pseudo, "false"), "v0.3.0 (commit " + commit + ", unmodified)"},
		{
			"make build, changed tree", "v0.3.0-4-g64f9e3a-dirty", built(pseudo+"+dirty", "true"),
			"v0.3.0-4-g64f9e3a-dirty (commit " + commit + ", modified)",
		},
		{"go build", "", built(pseudo, "false"), pseudo + " (commit " + commit + ", unmodified)"},
		{
			"go build, changed tree", "", built(pseudo+"+dirty", "true"),
			pseudo + "+dirty (commit " + commit + ", modified)",
		},
		{"go install of a version", "", built("v0.3.0", ""), "v0.3.0 (commit unknown)"},
		{
			"image without a repository", "v0.3.0-4-g64f9e3a", built("(devel)", ""),
			"v0.3.0-4-g64f9e3a (commit 64f9e3a, unmodified)",
		},
		{
			"image without a repository, changed tree", "64f9e3a-dirty", built("(devel)", ""),
			"64f9e3a-dirty (commit 64f9e3a, modified)",
		},
		{"image of a version", "0.3.0", built("(devel)", ""), "0.3.0 (commit unknown)"},
		{"go run", "", built("(devel)", ""), "unknown (commit unknown)"},
		{"nothing recorded", "", nil, "unknown (commit unknown)"},
	} {
		require.Equal(t, tc.want+" "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH,
			read(tc.linker, tc.build).String(), tc.how)
	}
}
