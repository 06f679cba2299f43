#!/usr/bin/env bash
# Runs a comparison script in the Python environment of the tests; says so and returns 77 (skipped) where there is none.
# usage: with_python.sh SCRIPT ARGUMENT...   (OSPREY_PYTHON names another interpreter)
python=${OSPREY_PYTHON:-$(dirname "$0")/../../build/venv/bin/python}
if [ ! -x "$python" ]; then
  echo "skipped: no Python environment to compare with (scripts/setup.sh --tests makes build/venv)"
  exit 77
fi
exec "$python" "$@"
