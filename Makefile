# One target for each task of a developer. `make` without a target lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help tools demo build web install release image samples screenshot fmt lint tidy clippy deny check-web test unit doc e2e fuzz forget-skipped lab lab-quick bench bench-cold bench-crates bench-instructions bench-cache bench-hostile bench-load bench-streams docs compare clean

# The folders into which cargo and go install the tools of `make tools`.
export PATH := $(HOME)/.cargo/bin:$(HOME)/go/bin:$(PATH)

# rust-toolchain.toml names a release. Some machines have that same release only under the name "stable".
ifneq ($(shell cargo --version 2>/dev/null | cut -d' ' -f1),cargo)
ifneq ($(findstring $(shell sed -n 's/^channel = "\(.*\)"/ \1 /p' rust-toolchain.toml),$(shell rustc +stable --version 2>/dev/null)),)
export RUSTUP_TOOLCHAIN := stable
endif
endif

PROFILE ?= dev
LISTEN ?= 127.0.0.1:8080
FUZZ_SECONDS ?= 30
target := $(or $(CARGO_TARGET_DIR),target)
binary := $(target)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/latemux
# Checks that `make test` could not make here. Its last lines repeat them.
skipped := $(target)/skipped.txt
# The folder of media of other projects, which some tests read.
media := $(or $(LATEMUX_MEDIA),../shared/media)
schema := $(or $(LATEMUX_SCHEMA),../shared/schema)
# The folder for the results of `make lab`, which goes on where an earlier one stopped.
lab_run := $(or $(RUN),$(target)/lab)
stage = @printf '\n== %s (%s)\n' '$@' "$$(date +%T)"

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

tools: ## install the tools that the other targets need, and report those that could not be installed
	$(stage)
	@scripts/install-tools.sh

demo: web build ## serve the sample library, one title of it encrypted, and print the address of the player page (LISTEN=, PROFILE=release)
	@exec $(binary) serve samples/library --config samples/demo.toml --listen $(LISTEN)

build: ## build the binary (PROFILE=release for an optimised one)
	$(stage)
	@cargo build --locked --profile $(PROFILE) -p latemux

install: web ## install the optimised binary with its web pages into cargo's bin folder
	$(stage)
	@LATEMUX_REQUIRE_PAGES=1 cargo install --path crates/cli --locked

release: web ## build target/dist: a static binary with the pages, its SBOM and checksums (TARGETS=aarch64-unknown-linux-musl)
	$(stage)
	@scripts/install-tools.sh release
	@scripts/release.sh $(TARGETS)

image: release ## build the image `latemux` of that binary, with podman or docker (TAG=)
	$(stage)
	@scripts/image.sh "$$(ls -t $(target)/dist/latemux-*-"$$(uname -m)"-unknown-linux-musl | head -n 1)" $(or $(TAG),latemux)

web: ## build the web pages (web/dist, web/dist-load) that the next build embeds in the binary
	$(stage)
	@scripts/install-tools.sh npm
	@npm --silent --prefix web run build

samples: ## make samples/library again with ffmpeg
	@samples/make.sh

screenshot: web build ## take pictures of the player page, into e2e/screenshots
	@LATEMUX_BIN=$(abspath $(binary)) npm --silent --prefix e2e run screenshot

docs: ## write docs/configuration.md from the types of the configuration
	@LATEMUX_UPDATE_DOCS=1 cargo test --locked -q -p latemux --test it configuration::

fmt: ## format the Rust code
	@cargo fmt --all

lint: tidy clippy check-web deny ## check formatting, clippy (warnings are errors), the tree's rules, licences

tidy:
	$(stage)
	@node --test --test-reporter=dot scripts/*.test.mjs
	@node scripts/tidy.mjs
	@cargo fmt --all --check

clippy:
	$(stage)
	@cargo clippy --workspace --all-targets --locked -- -D warnings

check-web:
	$(stage)
	@scripts/install-tools.sh npm
	@npm --silent --prefix web run check

# Advisories come from another host. If it cannot be reached, that is reported but is not a failure.
deny:
	$(stage)
	@scripts/install-tools.sh lint
	@cargo deny --locked check licenses bans sources
	@mkdir -p $(target)
	@if timeout 60 cargo deny fetch db >/dev/null 2>&1; then cargo deny --locked check advisories; \
	else echo 'deny: advisories not checked: their database cannot be reached' | tee -a $(skipped); fi

test: forget-skipped tools web lint unit doc bench-instructions lab-quick e2e fuzz ## check everything that the project promises
	$(stage)
	@if test -s $(skipped); then echo 'All checks passed, except for these, which were skipped or passed only when run again:'; cat $(skipped); \
	else echo 'All checks passed.'; fi

forget-skipped:
	@mkdir -p $(target) && rm -f $(skipped)

unit: ## run unit and integration tests
	$(stage)
	@mkdir -p $(target)
	@test -n "$(wildcard $(media))" || echo 'unit: tests with media of other projects: neither LATEMUX_MEDIA nor $(media) is a folder' >> $(skipped)
	@$(or $(LATEMUX_PYTHON),e2e/.venv/bin/python3) -c 'import ttconv' 2>/dev/null || \
		echo 'unit: conversions of subtitles were not compared: there is no ttconv' >> $(skipped)
	@echo '#include <wels/codec_api.h>' | cc -E - >/dev/null 2>&1 || \
		echo 'unit: scalable video (SVC) was not tested: there is no libopenh264-dev' >> $(skipped)
	@cargo nextest run --workspace --locked $(if $(CI),--profile ci)
	@mkdir -p $(target)
	@podman info >/dev/null 2>&1 || docker info >/dev/null 2>&1 || \
		echo 'unit: the image was not run: neither podman nor docker works here' | tee -a $(skipped)
	@command -v helm >/dev/null || echo 'unit: the Helm chart was not checked: there is no helm' | tee -a $(skipped)

doc: ## check the links in doc comments, and run their examples
	$(stage)
	@RUSTDOCFLAGS="-D warnings" cargo doc --workspace --locked --no-deps --quiet
	@cargo test --workspace --locked --doc --quiet

e2e: web build ## run real players in Chromium against latemux
	$(stage)
	@mkdir -p $(target)
	@test -f $(schema)/DASH-MPD.xsd || echo "e2e: MPDs against DASH's schema: neither LATEMUX_SCHEMA nor $(schema) has it" >> $(skipped)
	@python3 -c 'import lxml.etree' 2>/dev/null || echo 'e2e: MPDs against the schema of DASH: Python has no lxml' >> $(skipped)
	@LATEMUX_BIN=$(abspath $(binary)) LATEMUX_SKIPPED=$(abspath $(skipped)) npm --silent --prefix e2e test

fuzz: ## run each fuzz target for FUZZ_SECONDS (default: 30; 10 in CI)
	$(stage)
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),$(if $(CI),10,30))

lab-quick: build ## measure each set-up of the lab once, and check its counts of requests and bytes
	$(stage)
	@scripts/install-tools.sh media servers browser npm
	@LATEMUX_BIN=$(abspath $(binary)) LAB_CONTENT=$(abspath $(target))/lab-content node scripts/lab-quick.mjs | tee $(target)/lab-quick.txt
	@grep SKIPPED $(target)/lab-quick.txt >> $(skipped) || true

lab: ## repeat the published experiments, scaled to about two hours (EXPERIMENT=f-cold, SCALE=published, RUN=folder)
	$(stage)
	@scripts/install-tools.sh media servers browser npm
	@cargo build --locked --release -p latemux
	@$(target)/release/latemux lab run $(or $(EXPERIMENT:%=lab/experiments/%.toml),lab/experiments/*.toml) \
		--scale $(if $(filter published,$(SCALE)),1,$(or $(SCALE),0.04)) --out $(lab_run) --content $(abspath $(target))/lab-titles
	@$(target)/release/latemux lab report $(lab_run)

bench: ## compare the server with nginx sending the same bytes as files (ROWS=dash,ts for some rows)
	$(stage)
	@scripts/install-tools.sh media servers load
	@cargo bench --locked --quiet -p latemux --bench static_files -- $(ROWS)

bench-cold: ## measure the first request for a title that nobody has asked for (ROWS=mpd,hls for some rows)
	$(stage)
	@scripts/install-tools.sh media load
	@cargo bench --locked --quiet -p latemux --bench cold -- $(ROWS)

bench-crates: ## run the benchmarks of single crates; each bench's documentation explains its figures
	@cargo bench --workspace --locked --exclude latemux --exclude latemux-instructions

bench-instructions: ## check the instruction counts of the pure crates (UPDATE=1 writes bench/instructions.json)
	$(stage)
	@scripts/install-tools.sh instructions
	@UPDATE=$(UPDATE) node scripts/instructions.mjs

bench-cache: ## check the caches' limits, counted by nginx (ROWS="pairs crowd", WITH="--cache-memory 0")
	$(stage)
	@scripts/install-tools.sh media servers
	@ROWS="$(or $(ROWS),all)" WITH="$(WITH)" cargo bench --locked -p latemux --bench cache

bench-hostile: ## measure what hostile clients, files and storage cost, beside a normal viewer (ROWS="silent")
	$(stage)
	@scripts/install-tools.sh media servers
	@ROWS="$(or $(ROWS),all)" WITH="$(WITH)" cargo bench --locked -p latemux --bench hostile

bench-streams: ## measure request-response streams on simulated lines, beside the model (ROWS="quick storage line full")
	$(stage)
	@scripts/install-tools.sh media servers
	@ROWS="$(or $(ROWS),quick storage)" cargo bench --locked --quiet -p latemux --bench streams

bench-load: ## measure the load generator itself: bytes per core-second beside wrk, memory of a player
	$(stage)
	@scripts/install-tools.sh media servers load
	@cargo bench --locked --quiet -p latemux --bench load_cost

compare: ## prove that this tree sends the same bytes as another revision (BASE=main)
	$(stage)
	@scripts/install-tools.sh media
	@scripts/compare.sh revision $(or $(BASE),main)

clean: ## remove build output, but no installed tools
	@cargo clean
	@rm -rf web/dist web/dist-load e2e/screenshots
