# Two commands set everything up: `make demo` shows a review, `make test` runs the tests.
# `make demo-app` shows the GitHub App at work, against a stand-in for GitHub.
VENV ?= .venv
PY := $(VENV)/bin/python

.PHONY: demo demo-app test clean

$(VENV)/ready: pyproject.toml
	@python3 -c 'import sys; sys.exit("Hostside needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check uv && $(PY) -m uv pip install --quiet --python $(PY) -e '.[dev]' || $(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(VENV)/ready
	$(PY) -m bot demo

demo-app: $(VENV)/ready
	$(PY) examples/demo_app.py

test: $(VENV)/ready
	$(PY) -m pytest -q -n auto -m "not slow"

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
