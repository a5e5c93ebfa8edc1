{{- /* Options that mcmw changes while it runs. Made from internal/config by "go generate ./internal/tools/chart". */ -}}
{{- define "mcmw.liveOptions" -}}servers pools routes shadows migrations replicas read ack writers change-step get-error failure-limit rejoin missed-memory sweep-every sweep-rate refill-rate sharded ring hash hash-tag holds resolve-interval remove-after resolver workers depth queue pool timeout stall-after connect-timeout drain-timeout large-values item-size log-level watch-interval{{- end -}}

{{- /* The least and the most of sizes, in bytes, and of times, in nanoseconds. */ -}}
{{- define "mcmw.ranges" -}}
idle-timeout: {least: 0, most: 86400000000000, accepted: "0s to 24h, with a unit: us, ms, s, m, h"}
max-connection-age: {least: 0, most: 86400000000000, accepted: "0s to 24h, with a unit: us, ms, s, m, h"}
min-rate: {least: 1, most: 1073741824, accepted: "1 to 1g bytes; k, m and g multiply by 1024"}
max-output: {least: 1024, most: 17179869184, accepted: "1k to 16g bytes; k, m and g multiply by 1024"}
write-timeout: {least: 1000000, most: 3600000000000, accepted: "1ms to 1h, with a unit: us, ms, s, m, h"}
client-memory: {least: 1048576, most: 1099511627776, accepted: "1m to 1024g bytes; k, m and g multiply by 1024"}
change-step: {least: 0, most: 3600000000000, accepted: "0s to 1h, with a unit: us, ms, s, m, h"}
missed-memory: {least: 1024, most: 17179869184, accepted: "1k to 16g bytes; k, m and g multiply by 1024"}
sweep-every: {least: 0, most: 86400000000000, accepted: "0s to 24h, with a unit: us, ms, s, m, h"}
resolve-interval: {least: 100000000, most: 3600000000000, accepted: "100ms to 1h, with a unit: us, ms, s, m, h"}
timeout: {least: 1000000, most: 3600000000000, accepted: "1ms to 1h, with a unit: us, ms, s, m, h"}
stall-after: {least: 0, most: 3600000000000, accepted: "0s to 1h, with a unit: us, ms, s, m, h"}
connect-timeout: {least: 1000000, most: 3600000000000, accepted: "1ms to 1h, with a unit: us, ms, s, m, h"}
max-key: {least: 1, most: 250, accepted: "1 to 250 bytes; k, m and g multiply by 1024"}
max-value: {least: 1024, most: 1073741824, accepted: "1k to 1g bytes; k, m and g multiply by 1024"}
large-values: {least: 0, most: 1073741824, accepted: "0 to 1g bytes; k, m and g multiply by 1024"}
item-size: {least: 16384, most: 1073741824, accepted: "16k to 1g bytes; k, m and g multiply by 1024"}
max-line: {least: 512, most: 1048576, accepted: "512 to 1m bytes; k, m and g multiply by 1024"}
max-multiget-line: {least: 2048, most: 1073741824, accepted: "2k to 1g bytes; k, m and g multiply by 1024"}
handshake-timeout: {least: 1000000, most: 3600000000000, accepted: "1ms to 1h, with a unit: us, ms, s, m, h"}
stats-window: {least: 100000000, most: 3600000000000, accepted: "100ms to 1h, with a unit: us, ms, s, m, h"}
slow: {least: 0, most: 3600000000000, accepted: "0s to 1h, with a unit: us, ms, s, m, h"}
hot-age: {least: 1000000, most: 1000000000, accepted: "1ms to 1s, with a unit: us, ms, s, m, h"}
hot-memory: {least: 1048576, most: 1099511627776, accepted: "1m to 1024g bytes; k, m and g multiply by 1024"}
watch-interval: {least: 0, most: 3600000000000, accepted: "0s to 1h, with a unit: us, ms, s, m, h"}
{{- end -}}
