# make demo and make test are the two commands to know; both set up .venv on their first run.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH := torch==2.13.0
VENV_CUDA ?= .venv-cuda
TORCH_CUDA := torch==2.11.0
VERSIONS ?= build/versions
DEMO := fixtures/gym_classic_discrete.py
DEMO_OUT := build/demo
DEMO_PYTHON = $(abspath $(BIN)/python)
DEMO_ARGS := --total-timesteps 5120

N ?= 10000
SEED ?= 0
JOBS ?= 2
RUNS ?= 150

# Processes that tests start would compile all modules anew: a tenth of their time. Empty means that it is not set
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-slow test-gpu test-null-cuda test-processors test-versions test-everywhere test-browser screenshots lint golden docs site fuzz hostile mutants kill bench bench-speed waits family wild strangers wild-speed clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: $(STAMP) ## create .venv and install everything into it

# torch comes first and by itself: left to the looser requirement of an extra, pip would take the newest
# build, with gigabytes of CUDA packages. Once it is there, the extra is satisfied.
$(STAMP): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[run,envs,plots,test]'
	touch $@

demo: $(STAMP) ## convert a fixture, compare what both scripts print and compute
	@mkdir -p $(DEMO_OUT)
	$(BIN)/lean-convert $(DEMO) -o $(DEMO_OUT)/lean.py --force
	$(BIN)/lean-convert $(DEMO) -o $(DEMO_OUT)/same_order.py --force --quiet --ignore shuffle
	@cp $(DEMO) $(DEMO_OUT)/original.py
	cd $(DEMO_OUT) && for run in original same_order; do \
	  $(DEMO_PYTHON) $$run.py $(DEMO_ARGS) > $$run.out 2> $$run.err || { cat $$run.err; exit 1; }; \
	  grep -v SPS $$run.out > $$run.txt || exit 1; done
	cd $(DEMO_OUT) && diff original.txt same_order.txt && echo "the same $$(wc -l < original.txt) lines"
	$(BIN)/lean-convert verify $(DEMO) $(DEMO_OUT)/lean.py --up-to flags-on -- --num-envs 2 --num-steps 64

# What starts processes, or tests classes that converted scripts carry, is in `make test`
check: lint ## a developer's loop: lint, types, facts, analyses and transforms (95 s on two cores)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow and not gpu" tests/test_layers.py tests/facts tests/syntax \
	  tests/dataflow tests/recognition tests/values tests/transforms -k "not processor" \
	  $(addprefix --ignore=tests/transforms/test_,checkpoint.py env_workers.py fused_envs.py tune_host.py async_envs.py)

test: lint ## lint, then every test that is not slow and needs neither a GPU nor a browser
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu and not browser"

test-slow: $(STAMP) ## the tests that train, the remaining forms of the quick ones, and those in Chromium
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "(slow or browser) and not gpu"

test-gpu: $(STAMP) ## the tests that need a CUDA device (skipped visibly without one)
	$(BIN)/python -m pytest -m gpu

test-null-cuda: $(VENV_CUDA)/.installed ## torch's CUDA build on a device that computes nothing (10 minutes, 5 GB of torch)
	$(VENV_CUDA)/bin/python -m pytest -n 2 -m null_cuda

# The oldest torch that converted scripts run on, in the build that PyPI has
$(VENV_CUDA)/.installed: pyproject.toml setup.py
	test -x $(VENV_CUDA)/bin/python || $(PYTHON) -m venv $(VENV_CUDA)
	$(VENV_CUDA)/bin/pip install --quiet '$(TORCH_CUDA)'
	$(VENV_CUDA)/bin/pip install --quiet --editable '.[run,envs,test]'
	touch $@

test-versions: $(STAMP) ## quick equality on Python 3.10 to 3.13, torch 2.11 to the newest, gymnasium 0.29 and 1 (20 GB in VERSIONS=folder)
	$(BIN)/python tests/tools/versions.py $(VERSIONS)

test-everywhere: $(STAMP) ## `make test` as on a processor without AVX, on Python 3.10 and 3.13, with the newest torch (four times its time; 20 GB)
	ATEN_CPU_CAPABILITY=default $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu" || failed=yes; \
	  $(BIN)/python tests/tools/versions.py --whole $(VERSIONS) && test -z "$$failed"

# torch decides by the processor it finds which instructions it computes with, unless it is told; avx2 needs one that has it
test-processors: $(STAMP) ## the equality tests with the instructions of other processors; WHEEL=, CLEANRL= for the family too (hours)
	$(foreach capability,default avx2,ATEN_CPU_CAPABILITY=$(capability) $(BIN)/python -m pytest -n 2 -m "not gpu" \
	  tests/system/test_equality.py -k "conversion_is_equal or published" || failed=yes;) test -z "$$failed"
	$(if $(WHEEL),$(foreach capability,default avx2,ATEN_CPU_CAPABILITY=$(capability) \
	  $(BIN)/python benchmarks/family.py $(WHEEL) $(CLEANRL) --up-to flags-off || exit 1;))

test-browser: $(STAMP) ## the tests of the page in Chromium (skipped visibly without it; CHROMIUM=path)
	$(BIN)/python -m pytest -m browser

screenshots: $(STAMP) ## draw the pictures in docs/images again; needs Chromium, CHROMIUM=path
	$(BIN)/python tests/tools/screenshots.py

lint: $(STAMP) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

golden: $(STAMP) ## convert the fixtures again and show what changed in fixtures/converted
	$(BIN)/python tests/tools/write_golden.py

docs: $(STAMP) ## write the tables and examples of the README and of docs/
	$(BIN)/python tests/tools/docs.py

site: $(STAMP) ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html; to search it: $(BIN)/python -m http.server -d build/site"

fuzz: $(STAMP) ## convert N=10000 mutants (SEED, JOBS), then run RUNS=150 against their conversions
	$(BIN)/python tests/fuzz/fuzz.py --mutants $(N) --seed $(SEED) --jobs $(JOBS)
	$(BIN)/python tests/fuzz/equal.py --runs $(RUNS) --seed $(SEED)

hostile: $(STAMP) ## convert and run hundreds of hostile scripts (JOBS; 20 minutes); DRAWN=2000 SEED= drawn ones instead
	PYTHONPATH=tests/support:tests/support/standins $(BIN)/python tests/hostility/sweep.py --jobs $(JOBS) \
	  $(if $(DRAWN),--drawn $(DRAWN) --seed $(SEED),--write)

mutants: $(STAMP) ## single edits of converted fixtures that verify should detect, MUTANTS= of each (an hour; resumes where it stopped)
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/score.py --write $(if $(MUTANTS),--mutants $(MUTANTS))

kill: $(STAMP) ## kill scripts that save checkpoints ten times each, and compare (40 minutes); WHEEL=, CLEANRL=, WILD=folder
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/killed.py $(WHEEL) $(CLEANRL) $(or $(WILD),.wild)

bench: $(STAMP) ## what a conversion, its verification and its start cost: seconds and memory
	$(BIN)/python benchmarks/convert_cost.py
	$(BIN)/python benchmarks/verify_cost.py
	$(BIN)/python benchmarks/run_cost.py fixtures/gym_classic_discrete.py fixtures/gymnasium_continuous.py

bench-speed: $(STAMP) ## how fast converted scripts train (25 minutes, nothing else running); LEANRL=, CLEANRL= checkouts
	$(BIN)/python benchmarks/speed.py $(if $(LEANRL),--leanrl $(LEANRL)) $(if $(CLEANRL),--cleanrl $(CLEANRL))
	$(BIN)/python tests/tools/docs.py

waits: $(STAMP) ## how often scripts wait for a CUDA device, on an emulated one (8 minutes)
	$(BIN)/python benchmarks/waits.py

family: $(STAMP) ## cleanrl's own scripts: verifies them on all checks (three hours); WHEEL= of cleanrl 1.2.0, CLEANRL= a checkout
	$(BIN)/python benchmarks/family.py $(WHEEL) $(CLEANRL)

wild: $(STAMP) ## other people's scripts: fetches, converts and runs them (five hours); WILD=folder for their checkouts
	$(BIN)/python benchmarks/wild.py $(or $(WILD),.wild) --fetch --run --write
	$(BIN)/python benchmarks/wild.py $(or $(WILD),.wild) --fetch --run --write --list wild_off_policy
	$(BIN)/python benchmarks/wild.py $(or $(WILD),.wild) --fetch --run --write --list wild_other
	$(BIN)/python benchmarks/wild.py $(or $(WILD),.wild) --fetch --run --write --list wild_classes

# All lists whatever one of them finds; what fails, fails at the end
strangers: $(STAMP) ## the nightly form of wild: runs what changed, runs and compiles a tenth of the rest (a night); WILD=folder
	$(foreach list,wild wild_off_policy wild_other wild_classes,$(BIN)/python benchmarks/wild.py $(or $(WILD),.wild) --list $(list) \
	  --fetch --run --tenth --write || failed=yes;) test -z "$$failed"

wild-speed: $(STAMP) ## how much faster other people's scripts get (three hours, nothing else running; resumes where it stopped)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/wild_speed.py $(or $(WILD),.wild) --fetch

clean: ## remove .venv and all caches
	rm -rf $(VENV) $(VENV_CUDA) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
