# Thin doors: everything that is checked is an environment of tox.ini (`tox list` is the menu).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DISTRIBUTIONS := -e '.[testing]' -e backends/nvidia -e backends/mock

.PHONY: lab test cluster dev clean

lab: $(READY)  ## Share simulated accelerators among pods on this machine, and show where each went and why.
	$(BIN)/python hami-core-c/compile.py build/limiter
	$(BIN)/hami lab run examples/quickstart.yaml examples/limits.yaml

test: $(READY)  ## Every check that needs neither root nor a cluster.
	$(BIN)/tox run

cluster: $(READY)  ## The system on a real Kubernetes, built from Go modules on first use; as root with a real node.
	$(BIN)/tox run -e cluster

dev: $(READY)  ## Prepare .venv with everything installed editable.

$(READY): pyproject.toml backends/nvidia/pyproject.toml backends/mock/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python $(DISTRIBUTIONS) --group dev
	$(BIN)/python -m compileall -q hami_core_py backends
	touch $(READY)

clean:
	rm -rf $(VENV) .tox .mypy_cache .ruff_cache .hypothesis dist build
