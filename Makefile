# The few commands a user or a developer needs. Everything else is CMake (CMakePresets.json) and ctest.
#   make serve [MODEL=name|file] [HOST=127.0.0.1] [PORT=8000] [ARGS="..."]
#   make test  [PRESET=asan]
#   make bench-peers [MODEL=...] [ROUNDS=3] [VLLM=1]
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: help setup build serve test bench bench-engine bench-race bench-peers clean

PRESET ?= release
BUILD := build/$(PRESET)
JOBS ?= $(shell nproc)

# A name that scripts/fetch_model knows, a GGUF file, or a Hugging Face folder.
MODEL ?= smollm2-135m
HOST ?= 127.0.0.1
PORT ?= 8000
ARGS ?=
BENCH_ARGS ?=
ROUNDS ?= 3
VLLM ?=
RACE_ARGS ?= --workload batch-16 --workload mixed

help:
	@echo "make setup       install the Debian packages that are missing"
	@echo "make build       build/release/pagoda"
	@echo "make serve       build, fetch a small model once, and serve it on http://$(HOST):$(PORT)"
	@echo "make test        build, then every test but the slow ones"
	@echo "make bench       microbenchmarks of the kernels, against the measured peaks of this machine"
	@echo "make bench-engine [MODEL=...]  tokens per second without a server, against the same peaks"
	@echo "make bench-race  pagoda against llama-server, two workloads"
	@echo "make bench-peers [MODEL=...] [ROUNDS=3] [VLLM=1]  all workloads and peers, tables and plots"
	@echo "make clean       remove $(BUILD)"

setup:
	@scripts/setup

# Ninja runs CMake again by itself when a CMakeLists.txt changes, but it does not know the presets.
$(BUILD)/build.ninja: CMakePresets.json
	cmake --preset $(PRESET)
	@touch $@

build: setup $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS) --quiet pagoda

serve: build
	@if [[ -e "$(MODEL)" ]]; then model="$(MODEL)"; else model=$$(scripts/fetch_model "$(MODEL)"); fi; \
	exec $(BUILD)/pagoda serve "$$model" --host "$(HOST)" --port "$(PORT)" $(ARGS)

# Without the model the tests that need it are reported as skipped. The Python environment is small and comes
# from the same place as every other package, so its absence is an error.
test: setup $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS)
	@scripts/fetch_model smollm2-135m > /dev/null || echo "No model: the tests that need one will be skipped."
	@scripts/venv > /dev/null
	@scripts/venv clients > /dev/null
	@scripts/venv clients/older_openai > /dev/null
	@scripts/npm clients/javascript > /dev/null || echo "No npm packages: the JavaScript tests will be skipped."
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error -LE '^(slow|perf)$$'

# bench/README.md tells what each figure means and how long each target takes.
bench: setup $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS) --quiet kernels_bench
	$(BUILD)/bench/kernels_bench $(BENCH_ARGS)

bench-engine: setup $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS) --quiet engine_bench
	@if [[ -e "$(MODEL)" ]]; then model="$(MODEL)"; else model=$$(scripts/fetch_model "$(MODEL)"); fi; \
	$(BUILD)/bench/engine_bench "$$model" $(BENCH_ARGS)

bench-race: build
	bench/race/run --pagoda $(BUILD)/pagoda --model "$(MODEL)" --out build/race/quick $(RACE_ARGS)

# An interrupted run goes on where it stopped.
bench-peers: RACE_ARGS =
bench-peers: build
	bench/race/run --pagoda $(BUILD)/pagoda --model "$(MODEL)" --rounds $(ROUNDS) --busy \
	  $(if $(filter-out 0,$(VLLM)),--vllm) $(RACE_ARGS)

clean:
	rm -rf $(BUILD)
