# SPDX-License-Identifier: Apache-2.0
# Thin: each target is one or two commands that also work by hand. `make help` lists them.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
.DEFAULT_GOAL := help
.PHONY: help build install test check demo bench fuzz parity format wheel npm site release

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## */  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

build:  ## install missing packages, then build the command and the tests in build/release
	@scripts/setup
	@cmake --preset release --log-level=WARNING > /dev/null
	@cmake --build --preset release -j $(JOBS)

install:  ## install missing packages, build the command, install it into PREFIX (/usr/local)
	@scripts/setup
	@cmake --preset release --log-level=WARNING > /dev/null
	@cmake --build --preset release -j $(JOBS) --target exeunt exeunt-train exeunt-lab exeunt-lab-train exeunt_manual
	@mkdir -p $(PREFIX) 2> /dev/null; $$(test -w $(PREFIX) || echo sudo) cmake --install build/release --prefix $(PREFIX) --component command

# One test more than there are cores, because some of them mostly wait.
test: build  ## build and run every test
	@ctest --preset release -j $$(($(JOBS) + 1)) --no-label-summary

check:  ## the slower checks, for hours: sanitizers, clang-tidy, fuzz replay, mutations, load, the other architecture, ...
	@scripts/check

demo:  ## train, certify and serve an early-exiting classifier, in a few minutes
	@scripts/setup
	@scripts/setup node || echo "continuing without npm"
	@cmake --preset release --log-level=WARNING > /dev/null
	@cmake --build --preset release -j $(JOBS) --target exeunt exeunt-train exeunt-lab exeunt_manual
	@scripts/demo build/release/bin/exeunt

bench:  ## run the benchmarks
	@scripts/setup bench node
	@cmake --preset bench --log-level=WARNING > /dev/null
	@cmake --build --preset bench -j $(JOBS)
	@scripts/bench

fuzz:  ## fuzz every parser for FUZZ_SECONDS (60)
	@scripts/fuzz --seconds $(FUZZ_SECONDS)

parity:  ## compare the tokenizers with the npm package, 200,000 strings per family
	@scripts/setup build node
	@scripts/parity

wheel:  ## build the Python package, for this platform and as sources, into build/wheel/dist
	@scripts/setup runtime
	@cmake --preset wheel --log-level=WARNING > /dev/null
	@cmake --build --preset wheel -j $(JOBS) --target exeunt exeunt_shared
	@scripts/wheel build/wheel build/wheel/dist
	@/usr/bin/python3 python/build_backend.py build/wheel/dist

npm:  ## build the npm package for this platform into build/wheel/dist
	@scripts/setup runtime node
	@cmake --preset wheel --log-level=WARNING > /dev/null
	@cmake --build --preset wheel -j $(JOBS) --target exeunt_shared
	@scripts/npm build/wheel build/wheel/dist

site:  ## make the pages into build/site, to be read in a browser, with a search
	@scripts/setup
	@scripts/site build/site

release:  ## make the packages of this commit in dist/
	@JOBS=$(JOBS) scripts/release

format:  ## run clang-format on every tracked source
	@scripts/setup format
	@scripts/format
