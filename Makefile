# Everything sets itself up: a virtual environment in .venv with the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check format bench labs web clean

demo: .venv/ready            ## train on the built-in corpus, translate, draw (about two minutes)
	$(BIN)/regard demo

test: .venv/ready            ## every test (within ten minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/ready           ## formatting, lint, types, and whether the built page is fresh: what CI runs beside the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python web/manifest.py check
	if test -d web/node_modules; then cd web && npm run check && npm test; fi

format: .venv/ready          ## mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready           ## measurements; each prints a ratio
	$(BIN)/pip install -q -c constraints.txt transformers
	$(BIN)/python bench/decode_speed.py
	$(BIN)/python bench/train_speed.py --tokens 2000 --vocab 4000 --layers 2 --width 128 --steps 10

labs: .venv/ready            ## run every lab and write docs/labs (about three minutes)
	$(BIN)/regard lab all --out docs/labs
	rm -f docs/labs/*.svg

web:                         ## build the page of `regard serve` (needs node 20 or newer)
	cd web && npm ci --no-audit --no-fund && npm run build
	$(PYTHON) web/manifest.py write

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo "installing Debian's python3-venv"; \
		$$(test $$(id -u) = 0 || echo sudo) apt-get install -y python3-venv && $(PYTHON) -m venv .venv; }
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
