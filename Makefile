# Everything a person or a runner does here, by name. How the machine is made ready: integration/setup.sh.

VENV ?= .venv
PYTHON := $(VENV)/bin/python

PULSAR_VERSION ?= 4.2.4
PULSAR_PORT ?= 6650
PULSAR_WEB_PORT ?= 8080
PULSAR_DATA ?= .pulsar/$(PULSAR_VERSION)
# Further arguments of pytest, the bench and others, such as ARGS='-m "not broker" tests/core'.
ARGS ?=
# In how many processes beside each other tests run; 0 is one after another.
JOBS ?= 2
# The fast tier has one more: those that wait for a broker leave a core to another.
FAST_JOBS = $(if $(filter 0,$(JOBS)),0,$(shell expr $(JOBS) + 1))
# Which parts `make test-all` runs, of those that `make parts` lists; empty is the fast tier and all that need no name.
PARTS ?=
# In how many minutes it has to be over; what would take longer is left out. Empty is no limit.
WITHIN ?=
PINS = $(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make pins'
# How long the demo runs; empty leaves it to the demo.
SECONDS ?=
# How many gateways share the work in the demo.
REPLICAS ?= 1
# How long `make soak` loads the gateway, and with what else: ARGS='--idle 300 --active 20 --subscriptions 100'.
MINUTES ?= 30
# What `make sim` runs: SEEDS of one gateway and DEPLOYMENTS of several from FIRST on; SEED or DEPLOYMENT alone instead,
# whole or with some STEPS only, as a failure names them.
SEEDS ?= 2000
DEPLOYMENTS ?= 500
FIRST ?= 0
SEED ?=
DEPLOYMENT ?=
STEPS ?=
# How long `make fuzz` searches each target.
SECONDS_EACH ?= 20
# How many lives `make lives` draws of each model.
LIVES ?= 2000
# With which commit `make rooms` compares the folders of today; empty lists these.
BEFORE ?=

# Else each gateway and command that a test starts compiles all modules anew, and pytest rewrites all tests, which is half
# of the time in which it finds them. What is compiled is not in the way of git, and `make clean` removes it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup test-tools artifacts pulsar pulsar-stop pulsar-status test test-all parts sim lives rooms mutants fuzz compile compile-clean lint types fmt demo report uptime comparison bench suites soak chart site console-screenshots proto clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "variables: PULSAR_VERSION=$(PULSAR_VERSION) PULSAR_PORT=$(PULSAR_PORT) PULSAR_WEB_PORT=$(PULSAR_WEB_PORT)" \
		"PULSAR_DATA=$(PULSAR_DATA) SECONDS=$(SECONDS) ARGS=$(ARGS)"

setup: ## install what is missing: Java and Maven from the system, Python packages into .venv
	@integration/setup.sh system
	@$(MAKE) --no-print-directory --silent $(VENV)/.ready

# Remade whenever the list of packages may have changed.
$(VENV)/.ready: pyproject.toml
	@integration/setup.sh venv $(VENV)
	@touch $@

artifacts: setup ## fetch Pulsar and its tools into the cache (first time: some minutes)
	@$(PYTHON) -m integration.artifacts
	@$(PYTHON) -m integration.class_archive

pulsar: setup ## start a standalone Pulsar in the background; returns when it is ready
	@$(PYTHON) -m integration.pulsar start --version $(PULSAR_VERSION) --data $(PULSAR_DATA) \
		--port $(PULSAR_PORT) --web-port $(PULSAR_WEB_PORT)

pulsar-stop: $(VENV)/.ready ## stop it and keep its data
	@$(PYTHON) -m integration.pulsar stop --version $(PULSAR_VERSION) --data $(PULSAR_DATA)

pulsar-status: $(VENV)/.ready ## say whether it runs, and where
	@$(PYTHON) -m integration.pulsar status --version $(PULSAR_VERSION) --data $(PULSAR_DATA)

test-tools:
	@integration/setup.sh tests

test: setup test-tools artifacts lint types ## lint, types and every promise once, against real brokers: ten minutes
	@$(PYTHON) -m pytest --part fast -n $(FAST_JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-all: setup test-tools artifacts lint types ## every test: PARTS='faults lives' for some, WITHIN=60 minutes
	@$(PYTHON) -m tests.run_parts $(PARTS) --jobs $(JOBS) $(if $(WITHIN),--minutes $(WITHIN))

parts: $(VENV)/.ready ## list the parts of test-all
	@$(PYTHON) -m tests.parts

sim: $(VENV)/.ready ## simulate gateways and deployments: SEEDS=2000 DEPLOYMENTS=500 from FIRST=0 on; SEED=... or DEPLOYMENT=... (STEPS=...) again
	@$(PYTHON) -m tests.sim $(if $(SEED)$(DEPLOYMENT),$(if $(SEED),--seed $(SEED),--deployment $(DEPLOYMENT)) $(if $(STEPS),--steps $(STEPS)),--seeds $(SEEDS) --deployments $(DEPLOYMENTS) --first $(FIRST)) $(ARGS)

lives: $(VENV)/.ready ## random lives that no test run has drawn before: LIVES=2000 of each model
	@KEYLINE_LIVES=$(LIVES) $(PYTHON) -m pytest -q $$(grep -rl 'tests.lives' tests --include='test_*.py') -k runTest $(ARGS)

rooms: $(VENV)/.ready ## list the folders, their imports, upward imports and cycles; BEFORE=2ddbf66e compares with a commit
	@$(PYTHON) -m tests.rooms$(if $(BEFORE),_before $(BEFORE))

mutants: $(VENV)/.ready ## put faults into the gateway: the simulator or tests must detect each
	@$(PYTHON) -m tests.sim.mutants $(ARGS)

fuzz: $(VENV)/.ready ## search for inputs that break a promise; SECONDS_EACH=20, ARGS='batch session' for some targets
	@$(PYTHON) -m tests.fuzz --seconds $(SECONDS_EACH) $(ARGS)

compile: setup ## compile the modules that every message passes, into this checkout: about half of the CPU a message
	@integration/setup.sh compiler $(PYTHON)
	@$(PYTHON) hatch_build.py

compile-clean: $(VENV)/.ready ## remove what was compiled: the sources run again
	@$(PYTHON) hatch_build.py clean

lint: $(VENV)/.ready ## ruff: rules and format
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .

types: $(VENV)/.ready ## mypy, strict
	@$(PYTHON) -m mypy

fmt: $(VENV)/.ready ## format, and fix what can be fixed safely
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

demo: setup ## show that keys keep their order while workers join and leave
	@$(PYTHON) -m integration.demo --version $(PULSAR_VERSION) $(if $(SECONDS),--seconds $(SECONDS)) --replicas $(REPLICAS)

report: setup ## audit the journal of the last demo, with Spark
	@$(VENV)/bin/keyline report .demo/journal --out .demo/report

uptime: setup ## PIP-440's scenario: hosts fail one by one, with priorities and without; ARGS='--plot uptime.png'
	@$(PYTHON) -m integration.uptime --version $(PULSAR_VERSION) $(ARGS)

comparison: setup ## count what goes wrong without the gateway, and with it, while workers roll: the README's figures
	@$(PYTHON) -m integration.comparison $(ARGS)

bench: setup ## measure the gateway against a direct connection
	@$(PYTHON) -m integration.bench --version $(PULSAR_VERSION) $(ARGS)

suites: setup ## the official Go and Rust clients' own tests, direct and through the gateway; ARGS="--only '^go TestReader'"
	@$(PYTHON) -m integration.suites --version $(PULSAR_VERSION) $(ARGS)

soak: setup ## thousands of workers, rolling restarts, MINUTES=30; memory, descriptors, latency, order
	@$(PYTHON) -m integration.soak --version $(PULSAR_VERSION) --minutes $(MINUTES) $(ARGS)

site: $(VENV)/.ready ## build the documentation as a site into build/site; a broken link fails it
	@$(VENV)/bin/mkdocs build --quiet

chart: $(VENV)/.ready ## write the Helm chart's generated files: its schema, README, dashboards and rules
	@$(PYTHON) -m helm.build

image: setup ## build the gateway's image keyline:local, without a registry too; ARGS='--save keyline.tar'
	@$(PYTHON) -m integration.containers $(ARGS)

pins: $(VENV)/.ready ## update the image's pins: each package with its hashes, its base with its digest
	@$(PINS) --extra tracing pyproject.toml -o requirements.txt
	@$(PYTHON) -c "import tomllib; from pathlib import Path; made = tomllib.loads(Path('pyproject.toml').read_text()); \
		print(*made['build-system']['requires'], *made['project']['optional-dependencies']['compile'], sep='\n')" \
		| $(PINS) - -o requirements-build.txt
	@$(PYTHON) -m integration.containers.base

console-screenshots: setup ## retake the console's pictures in docs/images, in the system's Chromium
	@$(PYTHON) -m tests.integration.console_screenshots

proto: $(VENV)/.ready ## regenerate proxy/wire/pulsar_pb2.py and .pyi from pulsar.proto
	@$(PYTHON) -m tests.wire.regenerate

clean: pulsar-stop ## stop the background Pulsar and remove everything made here, the cache outside excepted
	rm -rf $(VENV) .pulsar .demo .fuzz .bench .suites build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find proxy -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
