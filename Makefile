# One target per thing a developer does. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help tools demo build web samples screenshot fmt lint tidy clippy deny check-web test unit doc e2e fuzz bench bench-crates bench-instructions bench-cache bench-load docs clean

# Where cargo and go put what `make tools` installs.
export PATH := $(HOME)/.cargo/bin:$(HOME)/go/bin:$(PATH)

# rust-toolchain.toml names a release; some machines have that very release under the name "stable" only.
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
stage = @printf '\n== %s (%s)\n' '$@' "$$(date +%T)"

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

tools: ## install what the other targets need; say in one line each what could not be
	$(stage)
	@scripts/install-tools.sh

demo: web build ## serve the sample library and print the address of a page that plays (LISTEN=, PROFILE=release)
	@exec $(binary) serve samples/library --listen $(LISTEN)

build: ## build the binary (PROFILE=release for a fast one)
	$(stage)
	@cargo build --locked --profile $(PROFILE) -p latemux

web: ## build the player page into web/dist and the live page of load into web/dist-load, which the binary then carries
	$(stage)
	@scripts/install-tools.sh npm
	@npm --silent --prefix web run build

samples: ## make samples/library anew with ffmpeg
	@samples/make.sh

screenshot: web build ## pictures of the page, in e2e/screenshots
	@LATEMUX_BIN=$(abspath $(binary)) npm --silent --prefix e2e run screenshot

docs: ## write docs/configuration.md from the types of the configuration
	@LATEMUX_UPDATE_DOCS=1 cargo test --locked -q -p latemux --test it configuration::

fmt: ## format the Rust code
	@cargo fmt --all

lint: tidy clippy check-web deny ## formatting, clippy with warnings as errors, tree rules, licences

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

# Advisories are fetched from another host: not reaching it is said, and is no failure.
deny:
	$(stage)
	@scripts/install-tools.sh lint
	@cargo deny --locked check licenses bans sources
	@if timeout 60 cargo deny fetch db >/dev/null 2>&1; then cargo deny --locked check advisories; \
	else echo 'deny: advisories not checked, for their database cannot be reached'; fi

test: tools web lint unit doc bench-instructions e2e fuzz ## everything the project promises

unit: ## unit and integration tests
	$(stage)
	@cargo nextest run --workspace --locked $(if $(CI),--profile ci)

doc: ## examples in the documentation
	$(stage)
	@cargo test --workspace --locked --doc --quiet

e2e: web build ## real players in Chromium against a running latemux
	$(stage)
	@LATEMUX_BIN=$(abspath $(binary)) npm --silent --prefix e2e test

fuzz: ## each fuzz target for FUZZ_SECONDS
	$(stage)
	@scripts/fuzz.sh $(FUZZ_SECONDS)

bench: ## the server beside nginx sending the same bytes as files; some rows of the table: ROWS=dash,ts
	$(stage)
	@scripts/install-tools.sh media servers load
	@cargo bench --locked --quiet -p latemux --bench static_files -- $(ROWS)

bench-crates: ## benchmarks of single crates; figures and how to read them in the benches' own documentation
	@cargo bench --workspace --locked --exclude latemux --exclude latemux-instructions

bench-instructions: ## instructions the pure crates need: none more than 5 % above bench/instructions.json (UPDATE=1 writes it)
	$(stage)
	@scripts/install-tools.sh instructions
	@UPDATE=$(UPDATE) node scripts/instructions.mjs

bench-cache: ## what the caches must reach, counted by nginx (ROWS="pairs crowd", WITH="--cache-memory 0")
	$(stage)
	@scripts/install-tools.sh media servers
	@ROWS="$(or $(ROWS),all)" WITH="$(WITH)" cargo bench --locked -p latemux --bench cache

bench-load: ## what the load generator itself costs: bytes for each second of a core, beside wrk, and memory of a player
	$(stage)
	@scripts/install-tools.sh media servers load
	@cargo bench --locked --quiet -p latemux --bench load_cost

clean: ## remove what was built, but not what was installed
	@cargo clean
	@rm -rf web/dist web/dist-load e2e/screenshots
