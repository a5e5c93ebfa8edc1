package admin

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// ownHost passes requests on to next. If the admin server listens on loopback, it passes only requests under a name of
// this machine: localhost, a loopback address, or the host in addr, the configured address. It refuses others, because
// a foreign page whose name is made to resolve to 127.0.0.1 (DNS rebinding) could read the statistics with its
// visitor's browser. A server on any other address accepts every name. Requests without a Host are accepted: they do
// not come from a browser.
func ownHost(bound net.Addr, addr string, next http.Handler) http.Handler {
	if a, ok := bound.(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return next
	}
	own, _, _ := net.SplitHostPort(addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		ip := net.ParseIP(host)
		if host == "" || strings.EqualFold(host, "localhost") || (own != "" && strings.EqualFold(host, own)) ||
			(ip != nil && ip.IsLoopback()) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w,
			"the admin server listens on loopback and answers only to localhost, 127.0.0.1 and [::1]; to use another "+
				"name, listen on another address",
			http.StatusForbidden)
	})
}
