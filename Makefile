# A new machine needs Python 3.11 or newer and Java 17; the rest comes from the lock file.
VERSIONS := 3.11 3.12 3.13 3.14
works = $(shell python$(1) -c 'import sys; print(sys.executable)' 2>/dev/null)
PYTHON ?= $(firstword $(foreach each,$(VERSIONS),$(call works,$(each))) $(shell command -v python3))
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8
# Most of the suite's time is waiting, so more workers than cores. What ran out of its time beside
# the others is tried once more and listed as such; a wrong result never is.
WORKERS ?= 4
SUITE_OPTIONS := -n $(WORKERS) --dist worksteal --once-more
PLAIN := HELIOGRAPH_PURE=1 HELIOGRAPH_EXPECTED_BUILD=plain
# The rooms that have compiled modules.
PLAIN_TESTS := $(addprefix tests/unit/local_cluster/,client counters fetch_sessions groups handlers log records \
	replication server transactions wire) $(addprefix tests/unit/mirror_maker/,copy flow formats)
STAMP := $(VENV)/.installed
# The suite starts very many Python processes. Without bytecode on disk each compiles every
# module that it imports, a CPU-second per broker.
unexport PYTHONDONTWRITEBYTECODE
# What a target needs is made side by side: mypy beside the C compiler.
MAKEFLAGS += --jobs=2

.DEFAULT_GOAL := help
.PHONY: help compile demo test test-long test-pure lint types unit unit-every-python compat docs catalogue-page wheel \
	bench bench-broker bench-quick bench-cluster bench-mirror bench-controller bench-migration bench-logins bench-spark bench-offsets-load mirror-proofs \
	nemesis nemesis-table referee ten-hosts acl-oracle hostile hostile-guided java-scenarios exactly-once rotation materialize-kills spark-kills simulate simulate-mirror lock clean

help:  ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

compile: $(STAMP)  ## compile the hot modules, if there is a C compiler
	@$(BIN)/python -m local_cluster.compilation

demo: $(STAMP)  ## the main job: three datacenters, mirrors, aggregate, Spark
	-@$(BIN)/python -m local_cluster.compilation
	$(BIN)/heliograph demo $(DEMO_OPTIONS)

test: compile lint types  ## lint, types, every test but those marked long; unit tests on plain Python too
	$(BIN)/python -m tests.support.make_class_archives
	$(BIN)/python -m pytest $(SUITE_OPTIONS) $(PYTEST_OPTIONS)
	@if $(BIN)/heliograph --version | grep -q "^compiled modules"; then \
		$(PLAIN) $(BIN)/python -m pytest $(SUITE_OPTIONS) -n 2 -m "not real" $(PLAIN_TESTS) $(PYTEST_OPTIONS); fi

test-long: compile  ## every test marked long, with short campaigns; hours
	$(BIN)/python -m pytest -m long --long $(PYTEST_OPTIONS)

test-pure: $(STAMP)  ## every test but those marked long, on plain Python
	$(PLAIN) $(BIN)/python -m pytest $(SUITE_OPTIONS) $(PYTEST_OPTIONS)

unit: $(STAMP)  ## only the tests that start no process
	$(BIN)/python -m pytest -m "not real" $(PYTEST_OPTIONS)

unit-every-python:  ## the same on every supported interpreter that this machine has
	@for version in $(VERSIONS); do \
		for python in "python$$version" $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
			"$$python" -c '' 2>/dev/null || continue; \
			echo "Python $$version: $$python"; \
			$(MAKE) unit PYTHON="$$python" VENV=.venv-$$version || exit 1; \
			break; \
		done; \
	done

compat: $(STAMP)  ## outside clients at length, and the same scenarios against Apache Kafka
	$(BIN)/python -m pytest tests/compat --long $(PYTEST_OPTIONS)

lint: $(STAMP)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy local_cluster mirror_maker aggregator spark_global topology tests

bench: compile  ## every bench in one sitting, hours; writes the page with its plots
	$(BIN)/python -m tests.bench.bench_all $(BENCH_OPTIONS)

bench-broker: $(STAMP)  ## our broker and Apache Kafka side by side, in about 25 minutes
	$(BIN)/python -m tests.bench.bench_broker $(BENCH_OPTIONS)

bench-quick: $(STAMP)  ## ten ratios to Apache Kafka beside the committed ones, in three minutes
	$(BIN)/python -m tests.bench.bench_quick $(BENCH_OPTIONS)

bench-cluster: $(STAMP)  ## three of our brokers and three of Apache Kafka's
	$(BIN)/python -m tests.bench.bench_cluster $(BENCH_OPTIONS)

bench-mirror: $(STAMP)  ## our mirror and MirrorMaker 2 side by side; pieces by --rows and --add
	$(BIN)/python -m tests.bench.bench_mirror $(BENCH_OPTIONS)

mirror-proofs: $(STAMP)  ## kills, replaced sources, MirrorMaker 2 taken over; Kafka on either side
	$(BIN)/python -m pytest --long tests/real/mirror/test_mirror_*.py \
		tests/compat/test_mirror_maker_2_taken_over.py $(PYTEST_OPTIONS)

acl-oracle: $(STAMP)  ## 100,000 random questions to our ACLs and to the authorizers of Kafka 4.4 and 3.9.1
	ACL_CASES=$(or $(CASES),100000) $(BIN)/python -m pytest -q -s tests/compat/test_acl_oracle.py

hostile: $(STAMP)  ## a million hostile inputs for what reads foreign bytes, as a table; INPUTS and SEED say otherwise
	$(BIN)/python -m tests.hostile --inputs $(or $(INPUTS),1000000) --seed $(or $(SEED),1)

hostile-guided: $(STAMP)  ## the same targets under atheris, which follows coverage, if it is installed; SECONDS_EACH says otherwise
	$(BIN)/python -m tests.hostile.guided --seconds $(or $(SECONDS_EACH),60)

exactly-once: $(STAMP)  ## kill -9 in a loop under transactional producers, for some minutes
	EXACTLY_ONCE_KILLS=$(or $(KILLS),60) $(BIN)/python -m pytest -s tests/real/broker/test_exactly_once.py

rotation: $(STAMP)  ## every certificate, password, user and listener once a minute under load, ten times or as ROUNDS says
	ROTATION_ROUNDS=$(or $(ROUNDS),10) ROTATION_SECONDS=60 $(BIN)/python -m pytest -q -s tests/real/cluster/test_rotation.py

materialize-kills: $(STAMP)  ## kill -9 of a job that keeps an Iceberg table, its catalogue; it moves between aggregates
	MATERIALIZE_KILLS=$(or $(KILLS),200) MATERIALIZE_CHANGES=$(or $(CHANGES),20) $(BIN)/python -m pytest -s --long tests/real/aggregate/test_iceberg_kills.py

spark-kills: $(STAMP)  ## kill -9 of streams, of executors, of jobs that serve, or keep a Delta table or windows
	$(BIN)/python -m pytest -s --long $(PYTEST_OPTIONS) tests/real/aggregate/test_executor_kills.py \
		tests/real/aggregate/test_spark_streaming.py::test_kills_lose_nothing_and_double_nothing \
		tests/real/aggregate/test_spark_serving.py::test_kills_lose_nothing_and_double_nothing \
		tests/real/aggregate/test_iceberg_question_kills.py \
		tests/real/aggregate/test_stream_sql_kills.py \
		tests/real/aggregate/test_delta.py::test_kills_lose_nothing_and_double_nothing

simulate: $(STAMP)  ## seeds of the simulated cluster, as JSON
	$(BIN)/python -m tests.sim.cluster $(if $(SIM_SEED),,--seeds 0:$(or $(SEEDS),20000)) --jobs $(or $(JOBS),1)

simulate-mirror: $(STAMP)  ## seeds of the mirror over the product of its modes, as JSON
	$(BIN)/python -m tests.sim.mirror_product $(if $(SIM_SEED),,--seeds 0:$(or $(SEEDS),20000)) --jobs $(or $(JOBS),1)

java-scenarios: $(STAMP)  ## 280 scenarios of a Java client of Kafka 4.4, against Kafka and ours: the differences
	$(BIN)/python -m tests.compat.java44 $(JAVA_SCENARIOS)

nemesis: $(STAMP)  ## faults at random on real processes, ten minutes or as SECONDS says
	$(BIN)/python -m tests.nemesis --mix --seconds $(or $(SECONDS),600) $(NEMESIS_OPTIONS)

nemesis-table: $(STAMP)  ## every fault with every workload on real processes, about a minute a row
	$(BIN)/python -m tests.nemesis $(NEMESIS_OPTIONS)

ten-hosts: $(STAMP)  ## ten hosts in three datacenters: deployed, grown, upgraded, lost and replaced under load
	$(BIN)/python -m tests.ten_hosts $(TEN_HOSTS_OPTIONS)

referee: $(STAMP)  ## judge the mirrors from outside, under faults, ten minutes or as SECONDS says
	$(BIN)/python -m tests.referee --seconds $(or $(SECONDS),600) $(REFEREE_OPTIONS)

bench-controller: $(STAMP)  ## the controller of 10,000 partitions goes: ours and Apache Kafka's
	$(BIN)/python -m tests.bench.bench_controller $(BENCH_OPTIONS)

bench-spark: compile  ## Spark's Kafka connector and ours, on Apache Kafka and on ours; 40 minutes
	$(BIN)/python -m tests.bench.bench_spark $(BENCH_OPTIONS)

bench-migration: $(STAMP)  ## pauses while members of a group change protocol: ours and Apache Kafka's
	$(BIN)/python -m tests.bench.bench_migration $(BENCH_OPTIONS)

bench-logins: compile  ## what 1,000 SCRAM logins a second do to the produces of others: ours and Apache Kafka's
	$(BIN)/python -m tests.bench.bench_logins $(BENCH_OPTIONS)

bench-offsets-load: $(STAMP)  ## how long a coordinator takes to load 100,000 committed offsets
	$(BIN)/python -m pytest -q -s tests/real/broker/test_offsets_load.py

docs: $(STAMP)  ## build the documentation into build/docs, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml

catalogue-page: $(STAMP)  ## the catalogue's answers on the demo's flights, as a page of the documentation
	$(BIN)/python -m tests.support.catalogue_page

wheel: $(STAMP)  ## build the wheel into dist/
	$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python

lock:  ## choose new versions from pyproject.toml
	$(BIN)/uv pip compile -q pyproject.toml --extra dev --universal --generate-hashes \
		--no-emit-index-url --no-header --python-version 3.11 -o requirements.lock

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv==$(UV_VERSION)
	$(BIN)/uv pip sync -q --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	touch $(STAMP)

clean:  ## delete the environment, caches and everything that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis heliograph-demo
