# `make demo` and `make test` do all their own set-up; everything is quick the second time.
SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
PROGRAM := build/bin/thinwire

.PHONY: help setup build python demo demo-pipeline test bench peers format lint docs-check screenshot test-asan test-tsan fuzz clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## install what is missing: system packages (root or sudo), .venv with torch
	@tools/setup

build: setup ## build/bin/thinwire, tests and benchmarks
	@tools/build release -j$(JOBS)

python: setup ## `python -m thinwire`, and so torchrun -m thinwire, in the environment (.venv, or the active one)
	@tools/build release -j$(JOBS) thinwire_python
	@tools/install-python

demo: setup ## four workers train a GPT over 100 Mbit/s and 20 ms, under five strategies; about a minute
	@tools/build release -j$(JOBS) thinwire_program
	@$(PROGRAM) compare recipes/demo.toml --strategies all_reduce,local_sgd,slowmo,co2,drip

demo-pipeline: setup ## four stages of a GPT over 100 Mbit/s and 20 ms, by four schedules for the same seconds
	@tools/build release -j$(JOBS) thinwire_program
	@$(PROGRAM) compare recipes/demo-pipeline.toml --schedules gpipe,1f1b,async_1f1b,steady

test: build ## all tests
	@ctest --test-dir build --output-on-failure -j$(JOBS)

bench: build ## the figures of benchmarks/*/README.md, measured here
	@for b in build/bin/bench_*; do echo "== $$(basename $$b)"; $$b || exit 1; done

peers: setup ## the 1-bit strategies step by step beside DeepSpeed 0.19.6's; minutes, and 1 GB for its environment
	@tools/build release -j$(JOBS) peers_one_bit_replay
	@peers/run

format: setup ## clang-format over everything
	@git ls-files '*.h' '*.cpp' | xargs clang-format-14 -i

lint: build ## clang-format everywhere, clang-tidy over the rooms that changed since BASE=HEAD~1 (or BASE=all)
	@tools/lint $(BASE)

docs-check: build ## every link on every page resolves, every command runs
	@ctest --test-dir build --output-on-failure -R '^docs$$'

screenshot: build ## docs/report.png, from a fresh demo
	@rm -rf build/screenshot
	@$(PROGRAM) compare recipes/demo.toml --strategies all_reduce,local_sgd,slowmo,co2,drip --dir build/screenshot
	@tools/screenshot build/screenshot docs/report.png

test-asan: setup ## all tests with address and undefined-behaviour sanitizers
	@tools/build asan -j$(JOBS)
	@ctest --test-dir build/asan --output-on-failure

test-tsan: setup ## comm, net, compress, dp, pipeline, train and processes with the thread sanitizer
	@tools/build tsan -j$(JOBS) test_comm test_net test_compress test_dp test_pipeline test_train test_processes
	@ctest --test-dir build/tsan --output-on-failure -R '^(comm|net|compress|dp|pipeline|train|processes)$$'

fuzz: build ## every parser of foreign bytes, a minute each
	@tools/fuzz 60

clean: ## remove what was built, keep .venv
	@rm -rf build
