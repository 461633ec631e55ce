# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := build/controller/bin
LAB := tests/lab/lab
N ?= 3
HOST ?= h1
CMD ?=
PYTEST_ARGS ?=
BENCH ?=
RECORD ?=

.PHONY: help setup demo demo-down test test-sanity lint test-unit test-versions test-integration test-e2e bench docs lab-up lab-down lab-ssh collection

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: ## packages and the Python environment of the controller
	@scripts/bootstrap.sh controller

demo: ## two test hosts, a local Hub, and the whole deployment on them
	@scripts/demo.sh up

demo-down: ## remove what `make demo` started
	@scripts/demo.sh down

test: test-sanity lint test-unit test-versions test-integration test-e2e ## everything below
	@echo "make test: all passed"

test-sanity: setup ## ansible-test sanity, on every Python found
	@scripts/ansible-test.sh sanity --local --requirements

lint: setup ## ruff, mypy, yamllint, ansible-lint (profile production), shellcheck
	@scripts/lint.sh

test-unit: setup ## pure logic, and recordings replayed
	PYTHONPATH=$(CURDIR)/build/collections $(BIN)/python -m pytest tests/unit -q $(PYTEST_ARGS)

test-versions: setup ## downloads with each huggingface_hub from 0.34 on, and what its own commands say of them
	@scripts/bootstrap.sh versions
	PYTHONPATH=$(CURDIR)/build/collections $(BIN)/python -m pytest tests/versions -q $(PYTEST_ARGS)

test-integration: setup ## each module in check / real / check / real, on this machine
	@scripts/ansible-test.sh integration --local --requirements

test-e2e: setup ## test hosts with real systemd, ssh, journald and vLLM (needs root)
	@scripts/bootstrap.sh lab
	@$(LAB) build
	PYTHONPATH=$(CURDIR)/build/collections $(BIN)/python -m pytest tests/lab tests/e2e -q $(PYTEST_ARGS)

bench: setup ## speed and memory beside other tools (BENCH='download verify' for some; RECORD=1 for docs/performance.md)
	ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/build/collections $(BIN)/python tests/bench $(if $(RECORD),--record) $(BENCH)

docs: setup ## the pages that are written from tables: docs/diagnosis.md
	PYTHONPATH=$(CURDIR)/build/collections $(BIN)/python scripts/diagnosis.py

lab-up: ## N test hosts (N=3)
	@scripts/bootstrap.sh lab
	@$(LAB) up -n $(N)

lab-down: ## remove the test hosts
	@$(LAB) down

lab-ssh: ## a shell on a test host (HOST=h1), or one command (CMD='...')
	@$(LAB) ssh $(HOST) $(CMD)

collection: setup ## the tarball that ansible-galaxy installs
	@$(BIN)/ansible-galaxy collection build --force --output-path build
