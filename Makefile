# Every target sets up what it needs; nothing beyond Python 3.11 with venv is expected.
PY := .venv/bin/python
export PYTHONPATH := .

.DEFAULT_GOAL := help
.PHONY: help setup demo story up down test check format lock openapi bench bench-claims bench-http bench-agents race-contrast stress bench-packing campaign-agent campaign-race clean

help:  ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

setup:  ## The locked packages in .venv (the other targets do this themselves)
	@scripts/bootstrap

demo: setup  ## Start everything with three tenants and twelve simulated hosts, and stay up
	@$(PY) -m gpuaas.demo $(ARGS)

story: setup  ## Run the story from join to proof without a person; exit 0 only if all holds
	@$(PY) -m gpuaas.demo story $(ARGS)

up: setup  ## Start the product without demo data, and stay up
	@$(PY) -m gpuaas.embedded up

down: setup  ## Stop what runs in the data folder
	@$(PY) -m gpuaas.embedded down

test: setup  ## All tests, on services of their own
	@$(PY) -m pytest -n 2 $(ARGS)

check: setup  ## Lint, types, import order, migrations, API document, architecture
	@scripts/check

format: setup  ## Let the formatter have its way
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

lock: setup  ## Choose package versions anew and lock them with hashes
	@scripts/lock

openapi: setup  ## Write the API document that is committed
	@$(PY) manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

bench: setup  ## All benchmarks
	@$(PY) -m benchmarks $(ARGS)

bench-claims: setup  ## Claim benchmarks; the last line is one JSON object
	@$(PY) -m benchmarks.claims $(ARGS)

bench-http: setup  ## Beside OpenStack Placement, Slurm and a bare insert; sets up the peers it can, skips the others
	@$(PY) -m benchmarks.beside $(ARGS)

bench-agents: setup  ## What a tenant feels of 1 000 agents, and how a fleet comes back after an outage
	@$(PY) -m benchmarks.agents $(ARGS)

race-contrast: setup  ## 16 clients take the last node at once, here and at OpenStack Placement: what is given beyond it
	@$(PY) -m benchmarks.beside --only race $(ARGS)

bench-packing: setup  ## Packing on traces: NODES=file PODS="files" SEEDS=42-51; last line is one JSON object
	@nice -n 10 $(PY) -m benchmarks.packing --nodes $(NODES) --pods $(PODS) --seeds $(or $(SEEDS),42-51) $(ARGS)

stress: setup  ## 64 clients on 10 nodes, calm and with kills; ends 0 only if every audit is silent
	@$(PY) -m benchmarks.stress $(ARGS)

campaign-agent: setup  ## Kill a host's agent 200 times, with QEMU where it is; fuzz tasks, requests and reports 100 000 times
	@CAMPAIGN=1 nice -n 5 $(PY) -m pytest -p no:cacheprovider tests/nodeagent/test_host_kills.py \
	    tests/nodeagent/test_host_fuzz.py tests/security/test_agent_messages.py $(ARGS)

campaign-race: setup  ## Every pair of acts preempted at every statement, 3 000 interleavings and more; last line is one JSON object
	@mkdir -p build && rm -f build/campaign-race.json
	@RACE_POINTS=1000 RACE_SEEDS=70 RACE_REPORT=build/campaign-race.json nice -n 5 $(PY) -m pytest -q -s \
	    -p no:cacheprovider tests/placement/test_steps.py $(ARGS); ended=$$?; cat build/campaign-race.json; exit $$ended

clean:  ## Stop and remove the data folder, caches and .venv
	@[ ! -x $(PY) ] || $(PY) -m gpuaas.embedded down
	@[ ! -x $(PY) ] || $(PY) -m gpuaas.embedded remove
	@rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
