PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint venv clean

demo: .venv/.installed
	$(BIN)/construct-beam demo --output demo_output --overwrite

test: .venv/.installed
	$(BIN)/pytest -n 2 --dist loadfile

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

venv: .venv/.installed

# One environment serves users and developers alike.
.venv/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("construct-beam needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info demo_output
