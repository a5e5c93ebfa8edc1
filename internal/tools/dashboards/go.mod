module mcmw/internal/tools/dashboards

go 1.26.0

require (
	github.com/grafana/grafana-foundation-sdk/go v0.0.12
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
