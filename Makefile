# Everything to build, test and show mcmw. `make` lists the targets.
#
# Requires Linux, Go and, for targets that install missing packages, apt.

SHELL := /bin/bash -euo pipefail
.DEFAULT_GOAL := help
.PHONY: help deps build demo test nightly check lint fmt race long fuzz faults soak prometheus bench bench-scale bench-hot-keys bench-writers load-agreement lab-quick lab-paper lab-paper-full lab-paper-delays lab-paper-page lab-servers lab-servers-page chart image packages cluster-up cluster-down test-cluster docker clean

# Tools at exact versions, run by .ci/tool.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    := golang.org/x/tools/cmd/deadcode@v0.52.0
NFPM        := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2

# The modules that lint checks in addition to the main one. `make nightly` also checks those that need Prometheus and Kubernetes.
MODULES ?= lab test/faults internal/tools/dashboards internal/tools/image

# The number of rounds of `make test` that run concurrently: some spend much of their time waiting.
JOBS ?= 2

# The time for which `make fuzz` and `make nightly` run each fuzz target.
FUZZTIME ?= 60s
# More flags for the experiments of `make bench` and `make bench-scale`, such as BENCHFLAGS=--quick.
BENCHFLAGS ?=
# More flags for `make faults`, such as FAULTFLAGS="--only kill-any", or FAULTFLAGS="--option hot-keys=serve" for an option of mcmw; and for `make soak`, such as SOAKFLAGS="--seed 1".
FAULTFLAGS ?=
SOAKFLAGS ?=
# The time for which `make soak` lets servers fail.
DURATION ?= 60m

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILDFLAGS := -buildvcs=auto -trimpath -ldflags '-X main.version=$(VERSION)'

# The chart's default tag of the images, which is also the version of the packages, and the architectures of both.
IMAGE_TAG ?= $(shell sed -n 's/^appVersion: //p' deploy/helm/mcmw/Chart.yaml)
PLATFORMS ?= linux/$(shell go env GOARCH)

help: ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 25

deps: ## install missing packages for tests and bench with apt (and, for Python, pip)
	@.ci/deps

build: ## build static binaries, bin/mcmw and bin/mcmwlab
	@mkdir -p bin
	CGO_ENABLED=0 go build $(BUILDFLAGS) -o bin/ ./cmd/...
	CGO_ENABLED=0 go -C lab build $(BUILDFLAGS) -o ../bin/ ./cmd/...

demo: ## run three memcached servers, mcmw, a load and a live page
	@.ci/deps memcached
	@mkdir -p bin
	CGO_ENABLED=0 go build $(BUILDFLAGS) -o bin/ ./cmd/...
	bin/mcmw demo

test: deps ## the tests that a change must pass: lint, race detector, behaviour, fuzzing, the chart (about 10 minutes with a cold build cache)
	@JOBS=$(JOBS) .ci/test race lint lab faults-short others image chart fuzz models memory

nightly: deps ## all tests: long, faults, soak, all fuzzing, race detector everywhere, Prometheus, client libraries, both Helm versions, packages, instructions per request, an upgrade, a cluster (several hours; as root)
	@[ $$(id -u) -ne 0 ] || .ci/deps cluster
	@.ci/deps packages
	@.ci/deps instructions
	@.ci/deps clients
	@MCMW_SEED=$${MCMW_SEED:-$$(date +%Y%m%d)} MODULES="$(MODULES) test/chart test/prometheus test/clients test/cluster" .ci/test lint everything lab-race faults-race models memory long lab-long faults soak fuzz-all dashboards prometheus clients charts packages instructions upgrade cluster

check: lint ## the quick tests during work: lint and the short tests, without the race detector
	go test ./...
	go -C lab test ./...
	go -C test/faults test .

lint: ## gofumpt, go vet, staticcheck, and deadcode for functions that no program reaches
	@unformatted=$$(.ci/tool $(GOFUMPT) -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted with gofumpt (run make fmt):"; echo "$$unformatted"; exit 1; fi
	@for module in . $(MODULES); do \
		echo "go vet and staticcheck in $$module"; \
		go -C $$module vet ./... && (cd $$module && GOGC=100 $(CURDIR)/.ci/tool $(STATICCHECK) ./...) || exit 1; done # staticcheck would need 4.4 GB with GOGC=400
	@# A workspace has the programs of the modules, which share packages.
	@echo "deadcode"; mkdir -p bin; printf 'go 1.26.0\nuse (\n\t..\n\t../lab\n\t../test/faults\n)\n' >bin/go.work; export GOWORK=$(CURDIR)/bin/go.work; \
	unreachable=$$(GOGC=400 .ci/tool $(DEADCODE) -filter '^mcmw/(cmd|internal|lab)' $$(go list ./... ./lab/... ./test/faults | grep -v /internal/mctest)); if [ -n "$$unreachable" ]; then \
		echo "functions that no program reaches, at most tests:"; echo "$$unreachable"; exit 1; fi

fmt: ## format the code
	.ci/tool $(GOFUMPT) -w .

race: deps ## test all packages under the race detector
	@.ci/test everything

long: deps ## the long behaviour tests: order, mix-up, differential, clients, memory
	@.ci/test long

fuzz: ## run every fuzz target for FUZZTIME (default 60s)
	@FUZZTIME=$(FUZZTIME) .ci/test fuzz-all

faults: deps build ## let servers fail under a verified load and write docs/results/reliability.md (about 35 minutes)
	MCMW_MEMCACHED_NEW="$${XDG_CACHE_HOME:-$$HOME/.cache}/mcmw/memcached-trixie/memcached" go -C test/faults run . --markdown ../../docs/results/reliability.md $(FAULTFLAGS)

soak: deps build ## like faults, with random faults for DURATION (default 60m)
	go -C test/faults run . soak --duration $(DURATION) --markdown ../../docs/results/reliability.md $(SOAKFLAGS)

prometheus: deps ## test dashboards, rules and alerts with a Prometheus that scrapes mcmw
	@.ci/test dashboards prometheus

# The next targets keep their records in results, and continue after an interruption.
load-agreement: deps build ## compare the load generator with memtier_benchmark, which must be in PATH, and fill docs/results/load.md (4 minutes, on a quiet machine)
	bin/mcmwlab run lab/experiments/agreement.yaml --out-dir results --resume
	.ci/fill docs/results/load.md

# The systems and loads of `make bench`. Its memcached and proxy are the newer memcached that `make deps` builds.
SYSTEMS ?= mcmw,twemproxy,proxy,go-floor,floor,direct
LOADS   ?= mixed-64,mixed-1,mixed-400,pipelined,multi-get,set-4k,get-4k,zipf-get,one-key,replicated,replicated-set
bench: deps build ## compare with other proxies and the least that a proxy can do, on one processor, and fill docs/results/performance.md (about 40 minutes, on a quiet machine)
	MCMW_MEMCACHED_NEW="$${XDG_CACHE_HOME:-$$HOME/.cache}/mcmw/memcached-trixie/memcached" bin/mcmwlab bench --systems $(SYSTEMS) --loads $(LOADS) \
		--rounds 10 --out results/bench --resume || [ $$? -eq 1 ]
	PATH="$${XDG_CACHE_HOME:-$$HOME/.cache}/mcmw/memcached-trixie:$$PATH" bin/mcmwlab run lab/experiments/performance/*.yaml --out-dir results/performance --resume $(BENCHFLAGS)
	.ci/fill docs/results/performance.md

bench-scale: deps build ## measure how the cost grows and fill docs/results/scaling.md (about 15 minutes, on a quiet machine)
	bin/mcmwlab run lab/experiments/scaling/*.yaml --out-dir results/scaling --resume $(BENCHFLAGS)
	.ci/fill docs/results/scaling.md

# hot-keys serve needs a memcached that reports the expiry of items, and the comparison needs its proxy: the newer memcached that `make deps` builds.
bench-hot-keys: deps build ## measure the gain of answering gets of hot keys from memory and fill docs/results/hot-keys.md (about 15 minutes, as root, on a quiet machine)
	PATH="$${XDG_CACHE_HOME:-$$HOME/.cache}/mcmw/memcached-trixie:$$PATH" bin/mcmwlab run lab/experiments/hot-keys/*.yaml --out-dir results/hot-keys --resume $(BENCHFLAGS)
	.ci/fill docs/results/hot-keys.md

# Several writers need a memcached that knows the flag E.
bench-writers: deps build ## measure the cost of several writers compared to one and fill docs/results/replication.md (about 7 minutes, on a quiet machine)
	PATH="$${XDG_CACHE_HOME:-$$HOME/.cache}/mcmw/memcached-trixie:$$PATH" bin/mcmwlab run lab/experiments/writers/*.yaml --out-dir results/writers --resume $(BENCHFLAGS)
	.ci/fill docs/results/replication.md

chart: ## test the Helm chart with Helm 3 and 4, without a cluster
	@.ci/test charts

cluster-up: ## bring up a Kubernetes of one node on this machine, with mcmw's images (as root; ten minutes at first, then half a minute)
	@.ci/deps cluster
	go -C test/cluster run . up

cluster-down: ## take that Kubernetes down and remove everything of it
	go -C test/cluster run . down

test-cluster: ## test installing, upgrading, breaking and scaling mcmw on that Kubernetes
	@.ci/deps cluster
	@.ci/test cluster

lab-quick: ## run an experiment with two factors on this machine, check it and write its report (under 3 minutes)
	@.ci/deps memcached
	@$(MAKE) --no-print-directory build
	bin/mcmwlab check lab/experiments/quick.yaml
	record=results/quick-$$(date -u +%Y%m%d-%H%M%S); \
	bin/mcmwlab run lab/experiments/quick.yaml --out "$$record"; \
	bin/mcmwlab show "$$record"

# The report whose experiments lab-paper runs: kuechler, pungas, ribeiro or cetin.
PAPER ?= kuechler

lab-paper: ## run short forms of the 2018 report's experiments on emulated machines and compare them with the report (as root; under 40 minutes; continues after an interruption)
	@.ci/deps memcached
	@$(MAKE) --no-print-directory build
	@status=0; \
	bin/mcmwlab run lab/experiments/$(PAPER)/*.yaml --quick --out-dir results/paper --resume || status=$$?; \
	bin/mcmwlab report --paper $(PAPER) results/paper --out results/paper-report; \
	exit $$status

lab-paper-full: ## run the experiments of a report as docs/results/paper.md shows them, PAPER=kuechler, pungas, ribeiro or cetin (as root; at most 90 minutes each; continues after an interruption)
	@.ci/deps memcached
	@$(MAKE) --no-print-directory build
	bin/mcmwlab run lab/experiments/$(PAPER)/*.yaml --out-dir results/paper-full --resume

lab-paper-delays: ## run the two 2^3 designs of the 2018 report with other network delays (as root, after lab-paper; about 25 minutes; continues after an interruption)
	@$(MAKE) --no-print-directory build
	@for delay in 0.4ms 0.6ms 0.75ms; do \
		bin/mcmwlab run lab/experiments/kuechler/*-factorial-*.yaml --quick --set testbed.delay=$$delay --out-dir results/paper/$$delay --resume || exit $$?; \
	done
	bin/mcmwlab report --paper kuechler results/paper --out results/paper-report

# Records of the reports' experiments as text, from which anyone can make the page again.
KEPT := docs/results/records

lab-paper-page: ## keep the records of lab-paper-full, if there are any, and fill docs/results/paper.md from those kept
	@for record in $(wildcard results/paper-full/*/); do \
		kept=$(KEPT)/$$(basename "$$record"); rm -rf "$$kept"; \
		bin/mcmwlab show "$$record" --export text --out "$$kept" || exit $$?; \
	done
	.ci/fill docs/results/paper.md

# The directory of the records of lab-servers, and more flags for its runs: LABFLAGS= runs the full profiles, which take a day.
RECORDS ?= results/servers
LABFLAGS ?= --quick

lab-servers: ## compare memcached with Redis on this machine: nine experiments and their reports (under 8 minutes, on a quiet machine)
	@.ci/deps memcached redis-server
	@$(MAKE) --no-print-directory build
	@for file in lab/experiments/pavlik/*.yaml; do \
		record=$(RECORDS)/$$(basename "$$file" .yaml); resume=; \
		[ ! -e "$$record/manifest.json" ] || resume=--resume; \
		echo "== $$file"; \
		bin/mcmwlab run "$$file" --out "$$record" $(LABFLAGS) $$resume; \
	done

lab-servers-page: ## fill docs/results/memcached-and-redis.md from the records of lab-servers
	.ci/fill docs/results/memcached-and-redis.md

docker: ## build the container images mcmw and mcmwlab, with the chart's default tag
	@for image in mcmw mcmwlab; do docker build --build-arg VERSION=$(VERSION) --target $$image -t $$image:$(IMAGE_TAG) .; done

image: ## write the images mcmw and mcmwlab as OCI archives, bin/*-image.tar, without Docker and offline
	@go -C internal/tools/image build -o $(CURDIR)/bin/tools/image .
	@for platform in $(PLATFORMS); do \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -buildvcs=auto -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/$$platform/ ./cmd/...; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go -C lab build -buildvcs=auto -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o ../bin/$$platform/ ./cmd/...; done
	@bin/tools/image -name mcmw:$(IMAGE_TAG) -entrypoint mcmw -cmd serve -env MCMW_LISTEN=:11311 -env MCMW_ADMIN=:9150 \
		-out bin/mcmw-image.tar $(foreach p,$(PLATFORMS),$(p)=bin/$(p)/mcmw)
	@bin/tools/image -name mcmwlab:$(IMAGE_TAG) -entrypoint mcmwlab -cmd wait -out bin/mcmwlab-image.tar $(foreach p,$(PLATFORMS),$(p)=bin/$(p)/mcmwlab)

packages: ## build packages for Debian and for distributions with rpm, bin/packages/*, without root
	@rm -rf bin/package bin/packages && mkdir -p bin/packages
	@CGO_ENABLED=0 go build $(BUILDFLAGS) -o bin/mcmw ./cmd/mcmw && bin/mcmw manual bin/package && gzip --best --no-name bin/package/man/*.1
	@export PACKAGE_VERSION=$(IMAGE_TAG) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 0); \
	for platform in $(PLATFORMS); do \
		export PACKAGE_ARCH=$${platform#*/}; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$PACKAGE_ARCH go build -buildvcs=auto -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/linux/$$PACKAGE_ARCH/ ./cmd/mcmw; \
		for packager in deb rpm; do .ci/tool $(NFPM) package --config deploy/package/nfpm.yaml --packager $$packager --target bin/packages; done; done

clean: ## remove built files
	rm -rf bin
