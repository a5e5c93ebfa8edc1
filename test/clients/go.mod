module mcmw/test/clients

go 1.26.0

require (
	github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
	github.com/grafana/gomemcache v0.0.0-20251127154401-74f93547077b
	github.com/spf13/pflag v1.0.9
	github.com/stretchr/testify v1.12.1
	mcmw v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace mcmw => ../..
