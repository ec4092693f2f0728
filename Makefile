# Two commands set everything up: `make run` and `make test`. Both make their own environment in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Without its bytecode each of the hundreds of processes that the tests start, and each of pytest's own, compiles all
# modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run help test quick lint unit search bench peers pipelines trainer-sdist clean

run: $(STAMP)
	@$(BIN)/vxtui

help:
	@echo "make run            open the console on the emulator of this machine"
	@echo "make quick          lint, types and unit tests: under 2 minutes on 2 cores"
	@echo "make test           the same and every other test: under 15 minutes on 2 cores"
	@echo "make lint           ruff, mypy and the import contract alone"
	@echo "make search         property tests with fresh seeds, for 20 minutes (MINUTES=n, TESTS=path)"
	@echo "make bench          benchmarks beside other tools (BENCH=name for one of them)"
	@echo "make pipelines      compile the ready-made pipelines, and fail where one has changed"
	@echo "make trainer-sdist  the trainer as a Python package (TO=gs://bucket/folder to upload it)"
	@echo "make clean          remove the environment"

test: $(STAMP) lint unit

# What a developer runs before each commit; neither a server nor a replica is started.
quick: $(STAMP) lint
	$(BIN)/pytest -n 2 tests/unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2 tui trainer
	$(BIN)/lint-imports

# More processes than a small machine has cores: half of the time tests wait for what runs elsewhere.
unit: $(STAMP)
	$(BIN)/pytest -n 4 --dist loadgroup

# `make test` takes the same examples on every machine; here each round takes others. The first failure ends it: its
# example goes into the test as @example.
MINUTES ?= 20
TESTS ?= tests/unit
search: $(STAMP)
	end=$$(($$(date +%s) + 60 * $(MINUTES))); while [ $$(date +%s) -lt $$end ]; do \
	  $(BIN)/pytest -q -x -n 2 --hypothesis-profile=search -m "hypothesis and not slow" $(TESTS) || exit 1; done

# Figures beside those of their peers (tests/benchmarks, docs/BENCHMARKS.md). It takes long and wants a quiet machine.
bench: $(STAMP) peers
	$(BIN)/python -m tests.benchmarks $(BENCH)

# Python peers pin other versions of what we use: each has an environment of its own.
peers: $(STAMP)
	for peer in textual-fastdatatable; do \
	  test -d $(VENV)/peers/$$peer/bin || $(PYTHON) -m venv $(VENV)/peers/$$peer; \
	  $(VENV)/peers/$$peer/bin/python -m pip install --quiet --disable-pip-version-check $$peer; \
	done
# These share our torch: the trainer and its peers are measured in the same two processes.
	test -d $(VENV)/peers/trainer/bin || { $(PYTHON) -m venv $(VENV)/peers/trainer; \
	  $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	    > $$($(VENV)/peers/trainer/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vxtui.pth; }
	$(VENV)/peers/trainer/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  accelerate==1.15.0 lightning-fabric==2.6.6 lightning-utilities==0.15.3 torchft==0.2.0

# Torch first and by its exact version: an installer that is asked for a range may take another build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("vxtui needs Python 3.11 or newer: make PYTHON=python3.11 …") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[trainer,vision,dev]'
# Compiled now: where nothing may be written beside the sources each start would do it, at five times the wait.
# Of what is installed some modules are templates that no Python can compile.
	$(BIN)/python -m compileall -qq tui trainer
	$(BIN)/python -m compileall -qq -j 0 $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || true
	touch $(STAMP)

# The ready-made pipelines from their sources; it fails where one is not what its source compiles to. kfp pins other
# versions of what we use, so it has an environment of its own.
pipelines:
	test -x $(VENV)/kfp/bin/python || $(PYTHON) -m venv $(VENV)/kfp
	$(VENV)/kfp/bin/python -m pip install --quiet --disable-pip-version-check \
	  kfp==2.17.0 google-cloud-pipeline-components==2.22.0
	for source in profiles/pipelines/*.py; do $(VENV)/kfp/bin/python -W ignore $$source; done
	git diff --exit-code -- profiles/pipelines

# The trainer as a Python package, for a job without an image of its own: make trainer-sdist TO=gs://my-bucket/trainer
trainer-sdist: $(STAMP)
	@$(BIN)/python -m trainer.package $(TO)

clean:
	rm -rf $(VENV)
