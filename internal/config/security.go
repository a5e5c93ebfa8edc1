package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"mcmw/internal/discover"
	"mcmw/internal/middleware"
	"mcmw/internal/secret"
)

const (
	optionServerTLS  = "server-tls"
	optionServerAuth = "server-auth-file"
)

// securityOptions are the options that checkSecurity checks.
var securityOptions = []string{
	"listen", "tls-cert", "tls-key", "tls-client-ca", "auth-file", optionServerTLS, "server-tls-ca", "server-tls-cert", "server-tls-key",
	"server-tls-name", optionServerAuth,
}

// listenPlaces returns the addresses to listen on, without their TLS prefixes.
func (c *Config) listenPlaces() []string {
	places := c.ListenAddrs()
	for i, a := range places {
		places[i] = strings.TrimPrefix(a, noTLSPrefix)
	}
	return places
}

// checkSecurity refuses options that require another one which is missing, and files that cannot be used.
func (c *Config) checkSecurity() Problems {
	s := c.security()
	var problems Problems
	for _, need := range []struct {
		option, value   string // what is given
		missing, needed string // what it needs
	}{
		{"tls-cert", s.TLS.Cert, s.TLS.Key, "tls-key"},
		{"tls-key", s.TLS.Key, s.TLS.Cert, "tls-cert"},
		{"tls-client-ca", s.TLS.ClientCA, s.TLS.Cert, "tls-cert"},
		{"server-tls-cert", s.ServerFiles.Cert, s.ServerFiles.Key, "server-tls-key"},
		{"server-tls-key", s.ServerFiles.Key, s.ServerFiles.Cert, "server-tls-cert"},
	} {
		unused := strings.HasPrefix(need.option, optionServerTLS) && !s.ServerTLS // which is what is said of it
		if need.value != "" && need.missing == "" && !unused {
			problems = append(problems, c.problem(need.option, "%q needs %s, which is not given", need.value, need.needed))
		}
	}
	for _, o := range []struct{ option, value string }{
		{"server-tls-ca", s.ServerFiles.CA},
		{"server-tls-cert", s.ServerFiles.Cert},
		{"server-tls-key", s.ServerFiles.Key},
		{"server-tls-name", s.ServerFiles.Name},
	} {
		if o.value != "" && !s.ServerTLS {
			problems = append(problems, c.problem(o.option, "%q has no meaning without %s", o.value, optionServerTLS))
		}
	}
	for _, a := range c.Listen {
		if strings.HasPrefix(a, noTLSPrefix) && s.TLS.Cert == "" {
			problems = append(problems, c.problem("listen", "%q needs tls-cert, which is not given: without it no address has TLS", a))
		}
	}
	if problems != nil {
		return problems
	}
	for _, of := range c.pooled([]string{optionServers}) {
		for _, server := range of.Specs {
			if of.Security.ServerTLS && s.ServerFiles.Name == "" && server.Lookup != discover.Static {
				c.Warnings = append(c.Warnings, fmt.Sprintf("%s without server-tls-name: the servers of %s%s are dialled by IP addresses, and their certificates must be for those",
					optionServerTLS, server.Lookup, server.Server.Addr))
			}
		}
	}
	secrets := []string{s.TLS.Key, s.AuthFile, s.ServerFiles.Key}
	s.ServerAuthFile = "" // it is that of the pools which don't say otherwise
	for _, of := range c.pooled([]string{optionServers}) {
		path := of.Security.ServerAuthFile
		if path == "" || slices.Contains(secrets, path) {
			continue
		}
		secrets = append(secrets, path)
		if of.Origin(optionServerAuth) == c.Origin(optionServerAuth) {
			of = c
		}
		if at, wrong := errors.AsType[*secret.FileError](middleware.Security{ServerAuthFile: path}.Check()); wrong {
			problems = append(problems, of.problem(optionServerAuth, "%q: %s", path, at.Err))
		}
	}
	if problems != nil {
		return problems
	}
	for _, path := range secrets {
		if warning := secret.Exposed(path); warning != "" {
			c.Warnings = append(c.Warnings, warning)
		}
	}
	err := s.Check()
	at, ok := errors.AsType[*secret.FileError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return Problems{{Text: err.Error()}}
	}
	for _, name := range securityOptions {
		if path, ok := Find(name).kind.get(c).(string); ok && path == at.Path {
			return Problems{c.problem(name, "%q: %s", at.Path, at.Err)}
		}
	}
	return Problems{{Text: err.Error()}}
}

// security returns what Security says, with TLS to servers if those of any pool have it.
func (c *Config) security() middleware.Security {
	s := c.Security
	for i, p := range c.pools {
		s.ServerTLS = i > 0 && s.ServerTLS || p.config.Security.ServerTLS
	}
	return s
}

// checkServerTLSName accepts names that a certificate can have.
func checkServerTLSName(name string) error {
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	return checkHost(name)
}
