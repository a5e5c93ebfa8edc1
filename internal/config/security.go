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
	"listen", "tls-cert", "tls-key", "tls-client-ca", "auth-file", optionServerTLS, "server-tls-ca", "server-tls-cert",
	"server-tls-key",
	"server-tls-name", optionServerAuth,
}

// listenAddrs returns the addresses to listen on without their prefixes notls:.
func (c *Config) listenAddrs() []string {
	addrs := c.ListenAddrs()
	for i, a := range addrs {
		addrs[i] = strings.TrimPrefix(a, noTLSPrefix)
	}
	return addrs
}

// checkSecurity refuses options that need another option, which is missing, and files that cannot be used.
func (c *Config) checkSecurity() Problems {
	s := c.security()
	problems := c.problems(s.CheckOptions(c.Listen)...)
	if problems != nil {
		return problems
	}
	for _, p := range c.pools {
		for _, server := range p.Specs {
			if p.Security.ServerTLS && s.ServerFiles.Name == "" && server.Lookup != discover.Static {
				c.Warnings = append(c.Warnings,
					fmt.Sprintf("%s without server-tls-name: mcmw connects to the servers of %s%s by IP address, so "+
						"their certificates must be valid for those addresses",
						optionServerTLS, server.Lookup, server.Server.Addr))
			}
		}
	}
	if c.noFiles {
		return nil
	}
	secrets := []string{s.TLS.Key, s.AuthFile, s.ServerFiles.Key}
	for _, p := range c.pools {
		of, path := p, p.Security.ServerAuthFile
		if path == "" || slices.Contains(secrets, path) {
			continue
		}
		secrets = append(secrets, path)
		if of.Origin(optionServerAuth) == c.Origin(optionServerAuth) {
			of = c
		}
		problems = append(problems, of.checkFiles(middleware.Security{ServerAuthFile: path}, optionServerAuth)...)
	}
	s.ServerAuthFile = "" // checked above, as the value of each pool
	if problems = append(problems, c.checkFiles(s, securityOptions...)...); problems != nil {
		return problems
	}
	for _, path := range secrets {
		if warning := secret.Exposed(path); warning != "" {
			c.Warnings = append(c.Warnings, warning)
		}
	}
	return nil
}

// checkFiles returns the problem of the first file of s that cannot be used; options has those that may name it.
func (c *Config) checkFiles(s middleware.Security, options ...string) Problems {
	err := s.Check()
	if err == nil {
		return nil
	}
	if at, ok := errors.AsType[*secret.FileError](err); ok {
		for _, name := range options {
			if path, ok := Find(name).kind.get(c).(string); ok && path == at.Path {
				return Problems{c.problem(name, "%q: %s", at.Path, at.Err)}
			}
		}
	}
	return Problems{{Text: err.Error()}}
}

// security returns Security, with ServerTLS set if any pool's servers have TLS.
func (c *Config) security() middleware.Security {
	s := c.Security
	for i, p := range c.pools {
		s.ServerTLS = i > 0 && s.ServerTLS || p.Security.ServerTLS
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
