# The two commands are `make run` and `make test`; `make help` lists the others.
# Everything they install comes from the hash-locked lists in .ci/ and goes into .venv/.

VENV := .venv
BIN := $(VENV)/bin
RUNTIME_LOCK := .ci/requirements.txt
DEV_LOCK := .ci/requirements-dev.txt
AGENT_LOCK := config/agent/requirements.txt
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input
UV_COMPILE := uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-header --no-annotate

# The Python that makes .venv; empty means python3.11, else a newer one (see .ci/python).
PYTHON ?=
# What follows the command: make run ARGS="monitor --broker mqtt://127.0.0.1:1883", make test ARGS="-k wire".
ARGS ?=
# Tests run side by side, a file at a time: four on two cores, for many wait; 0 runs them in one process.
WORKERS ?= 4
# One benchmark instead of all: make bench BENCH=sim ARGS="--ticks 10".
BENCH ?= *
# Only pictures whose names contain this: make pictures ONLY=fleet-120x40.
ONLY ?=
# Trouble of a real host: make hosts SCENE=hang.
SCENE ?=
# Damage by chance: make chaos SEED=7 plays all, PART=messages one part, with COUNT cases, MINUTES long, or one CASE alone.
SEED ?=
PART ?=
COUNT ?=
MINUTES ?=
CASE ?=

# A run of lab/, which also imports the support of the tests.
LAB := PYTHONPATH=tests exec $(BIN)/python -m lab

export PYTHON
# Where containers set it, every process of the suite would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check long brokers chaos soak churn hosts truth traces blame truth-screen lint package bench fixtures pictures docs lock clean

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

run: $(VENV)/project ## start trnfleet (the demo); ARGS="..." for any other command
	@.ci/mosquitto
	@exec $(BIN)/trnfleet $(ARGS)

test: $(VENV)/dev $(VENV)/project ## run every test; ARGS="..." goes to pytest
	@.ci/mosquitto
	@exec $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(VENV)/dev $(VENV)/project ## lint, and the unit tests of what changed: 30 s
	@$(BIN)/ruff check -q
	@$(BIN)/ruff format --check -q
	@$(BIN)/mypy
	@exec $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile $$(.ci/changed-tests) $(ARGS)

long: $(VENV)/dev $(VENV)/project ## run the tests that take minutes each, which `make test` leaves out
	@.ci/mosquitto
	@exec $(BIN)/python -m pytest -m long $(ARGS)

brokers: $(VENV)/dev $(VENV)/project ## install RabbitMQ, ejabberd, ActiveMQ and aedes, try all brokers and write the table of docs/brokers.md
	@.ci/mosquitto
	@.ci/brokers
	@$(LAB).brokers $(ARGS)

chaos: $(VENV)/dev $(VENV)/project ## damage messages, files, brokers and processes by chance; SEED=7 repeats it
	@.ci/mosquitto
	@case '$(PART)' in ''|processes) .ci/programs prometheus ;; esac
	@$(LAB).chaos $(SEED:%=--seed %) $(PART:%=--part %) \
		$(COUNT:%=--count %) $(MINUTES:%=--minutes %) $(CASE:%=--case %) $(ARGS)

soak: $(VENV)/dev $(VENV)/project ## watch the memory of the demo and of a quick game day for MINUTES=120
	@.ci/mosquitto
	@$(LAB).soak $(MINUTES:%=--minutes %) $(ARGS)

churn: $(VENV)/dev $(VENV)/project ## watch what five programs keep of names that come and go for MINUTES=60
	@.ci/mosquitto
	@$(LAB).soak.churn $(MINUTES:%=--minutes %) $(ARGS)

hosts: $(VENV)/dev $(VENV)/project ## show N=50 fake hosts with agents, scraped ones and the demo in one fleet; ARGS="--scraped 20"; SCENE=all for hosts in trouble
	@.ci/mosquitto
	@$(LAB).hosts$(SCENE:%=.scenes %) $(N:%=--hosts %) $(ARGS)

truth: $(VENV)/dev $(VENV)/project ## compare simulated telemetry with itself and published figures
	@$(LAB).truth $(ARGS)

blame: $(VENV)/dev $(VENV)/project ## print how well the shipped rules notice drawn faults and name their culprit; ARGS="--runs 7" for fewer
	@$(LAB).truth.blame $(ARGS)

traces: $(VENV)/dev $(VENV)/project ## print what each simulated fault changes, and when; ARGS="straggler" for some
	@$(LAB).truth.traces $(ARGS)

truth-screen: $(VENV)/dev $(VENV)/project ## look for figures with two values on 200 screens of the live demo; ARGS="--samples 50"
	@.ci/mosquitto
	@$(LAB).truth.screen $(ARGS)

lint: $(VENV)/dev $(VENV)/project ## check rules, format, types and the direction of imports
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

package: $(VENV)/dev $(VENV)/project ## build sdist and wheel into dist/, and try the wheel on each Python that is there
	@$(BIN)/hatchling build -d dist
	@exec $(BIN)/python -m pytest -m 'long or not long' tests/flow/package $(ARGS)

bench: $(VENV)/dev $(VENV)/project ## run the benchmarks, which print figures; BENCH=name for one
	@.ci/mosquitto
	@for file in lab/bench/bench_$(BENCH).py; do \
		echo "== $$file"; ($(LAB).bench.$$(basename "$$file" .py) $(ARGS)) || exit; \
	done

fixtures: $(VENV)/dev $(VENV)/project ## write fixtures/recordings again, a recording of each scenario, always the same bytes
	@PYTHONPATH=tests $(BIN)/python tests/support/record/fixtures.py

pictures: $(VENV)/dev $(VENV)/project ## write docs/pictures again, from the app and fixtures/recordings, always the same bytes; ONLY=fleet for some
	@$(LAB).pictures $(ONLY:%=--only %) $(ARGS)

docs: $(VENV)/dev $(VENV)/project ## write the tables of docs/ and docs/man/trnfleet.1 again, from the program
	@$(BIN)/python .ci/docs-tables
	@$(BIN)/python .ci/man-page

lock: ## lock the newest dependencies that pyproject.toml allows (needs uv)
	@command -v uv >/dev/null || { \
		echo "make lock needs uv: install it with 'pipx install uv' or your system's packages" >&2; exit 1; }
	$(UV_COMPILE) --upgrade pyproject.toml --group build --output-file $(RUNTIME_LOCK)
	$(UV_COMPILE) --upgrade pyproject.toml --group dev --constraints $(RUNTIME_LOCK) --output-file $(DEV_LOCK)
	$(UV_COMPILE) --upgrade --group pyproject.toml:agent --constraints $(RUNTIME_LOCK) --output-file $(AGENT_LOCK)
	@! grep -n '://' $(RUNTIME_LOCK) $(DEV_LOCK) $(AGENT_LOCK) || { echo "a lock must name no address" >&2; exit 1; }

clean: ## remove .venv, caches and what was built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find trnfleet tests lab -name __pycache__ -type d -prune -exec rm -rf {} +

# Three stamps in .venv say what it holds. A new lock makes .venv from nothing, so that it holds what the lock
# says and no more; so does an interpreter that is gone, which is why the interpreter is a prerequisite.
$(VENV)/runtime: $(RUNTIME_LOCK) $(BIN)/python
	@echo "setting up $(VENV), once: 1 of 3, a virtual environment"
	@python=$$(.ci/python) && rm -rf $(VENV) && "$$python" -m venv $(VENV)
	@echo "setting up $(VENV), once: 2 of 3, packages"
	@.ci/install $(BIN)/python $(RUNTIME_LOCK)
	@touch $@

$(BIN)/python: ;

$(VENV)/dev: $(DEV_LOCK) $(VENV)/runtime
	@echo "adding the tools for tests, once"
	@.ci/install $(BIN)/python $(DEV_LOCK)
	@touch $@

$(VENV)/project: pyproject.toml $(VENV)/runtime
	@echo "setting up $(VENV), once: 3 of 3, trnfleet"
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q trnfleet
	@touch $@
