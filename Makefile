# Every target first creates a virtual environment in .venv, with the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# Without an NVIDIA GPU, torch comes from here: its CPU build is gigabytes smaller than the one on PyPI.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: demo test check format bench labs notebooks types web audit release clean

demo: .venv/ready            ## train on the built-in corpus, translate and draw (about two minutes)
	$(BIN)/regard demo

test: .venv/ready            ## run all tests (up to ten minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: .venv/ready           ## check formatting, lint, types and that the built page is up to date; CI runs this and the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python web/manifest.py check
	$(BIN)/python web/openapi.py check
	if test -d web/node_modules; then cd web && npm run check && npm test; fi

format: .venv/ready          ## format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready           ## measure speed against Hugging Face transformers and CTranslate2 (about five minutes)
	$(BIN)/pip install -q -c constraints.txt transformers ctranslate2
	$(BIN)/python $$(nvidia-smi > /dev/null 2>&1 && echo bench/gpu.py || echo bench/cpu.py)

labs: .venv/ready            ## run all labs and write docs/labs (about five minutes)
	$(BIN)/regard lab all --out docs/labs
	rm -f docs/labs/*.svg

notebooks: .venv/ready       ## run all notebooks and store their outputs (about ten minutes; installs JupyterLab)
	$(BIN)/pip install -q -c constraints.txt -e '.[notebook]'
	$(BIN)/python notebooks/execute.py

types: .venv/ready           ## generate the web page's types from the server's OpenAPI document (needs node)
	$(BIN)/python web/openapi.py write
	cd web && npm run types

web:                         ## build the web page of `regard serve` (needs node 20 or newer)
	cd web && npm ci --no-audit --no-fund && npm run build
	$(PYTHON) web/manifest.py write

audit: .venv-release/ready   ## look for known vulnerabilities in all dependencies (needs the network, and node for the page)
	.venv-release/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt
	cd web && npm audit

release: .venv/ready .venv-release/ready   ## build the packages and the lists of their dependencies (SBOM) in dist
	rm -rf dist
	.venv-release/bin/python -m build -q
	.venv-release/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --of JSON -o dist/regard.cdx.json
	cd web && npm ci --no-audit --no-fund && npm sbom --sbom-format cyclonedx > ../dist/regard-page.cdx.json
	cd dist && sha256sum * > SHA256SUMS

.venv-release/ready:
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/pip install -q pip-audit cyclonedx-bom build
	@touch $@

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or newer")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo "installing Debian's python3-venv"; \
		$$(test $$(id -u) = 0 || echo sudo) apt-get install -y python3-venv && $(PYTHON) -m venv .venv; }
	@echo "installing into .venv; this takes a few minutes"
	@nvidia-smi > /dev/null 2>&1 || $(BIN)/pip install -q --no-deps --timeout 10 --retries 0 \
		--index-url $(TORCH_CPU_INDEX) $$(grep ^torch== constraints.txt) 2> /dev/null || \
		echo "the CPU build of torch cannot be downloaded from $(TORCH_CPU_INDEX); using PyPI"
	@$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .venv-release .pytest_cache .mypy_cache .ruff_cache
