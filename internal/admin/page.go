package admin

import (
	_ "embed"
	"net/http"
	"strings"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed chart.js
	chartJS string
	//go:embed page.js
	pageJS string

	// page is the complete live page. It loads only /api/stats.
	page = []byte(strings.NewReplacer("/*STYLE*/", pageCSS, "/*SCRIPT*/", chartJS+pageJS).Replace(pageHTML))
)

// pagePolicy lets a browser run only scripts in the page itself, and connect only to this server.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(page) // an error means that the browser is gone
}
