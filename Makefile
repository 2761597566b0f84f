# SPDX-License-Identifier: Apache-2.0
# Thin: each target is one or two commands that also work by hand. `make help` lists them.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
.DEFAULT_GOAL := help
.PHONY: help build test check demo bench fuzz parity format

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## */  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

build:  ## packages that are missing, then build/release/bin/exeunt and the tests
	@scripts/setup
	@cmake --preset release --log-level=WARNING > /dev/null
	@cmake --build --preset release -j $(JOBS)

# One test more than there are cores: some of them mostly wait.
test: build  ## build and run every test
	@ctest --preset release -j $$(($(JOBS) + 1)) --no-label-summary

check:  ## slower checks: sanitizers, clang-tidy, fuzz replay, browser, the other architecture, equal builds
	@scripts/check

demo:  ## from nothing to a certified, served, early-exiting classifier, in a few minutes
	@scripts/setup
	@scripts/setup node || echo "going on without npm"
	@cmake --preset release --log-level=WARNING > /dev/null
	@cmake --build --preset release -j $(JOBS) --target exeunt exeunt-train exeunt_manual
	@scripts/demo build/release/bin/exeunt

bench:  ## benchmarks
	@scripts/setup bench node
	@cmake --preset bench --log-level=WARNING > /dev/null
	@cmake --build --preset bench -j $(JOBS)
	@scripts/bench

fuzz:  ## every parser under libFuzzer for FUZZ_SECONDS (60) each
	@scripts/fuzz --seconds $(FUZZ_SECONDS)

parity:  ## the tokenizers against the npm package, 200,000 strings a family
	@scripts/setup build node
	@scripts/parity

format:  ## clang-format on every tracked source
	@scripts/setup format
	@scripts/format
