#!/usr/bin/env bash
# Builds Osprey (release, in build/release) and runs all its tests. Arguments go to ctest: scripts/test.sh -R golden
#   OSPREY_TEST_DATA=DIR   a folder with golden/ and data/: the full golden files and real photos are tested as well
#   OSPREY_LONG_TESTS=1    with `-L long -V`: every public config learns, is evaluated and exported (ten minutes on two cores)
#   CI=true                warnings are errors, and a build that takes more than 25 minutes fails
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --tests
ci=${CI:-false}

started=$SECONDS
mkdir -p build
cmake --preset release -DOSPREY_WERROR="$([ "$ci" = true ] && echo ON || echo OFF)" >build/configure.log || { cat build/configure.log >&2; exit 1; }
cmake --build --preset release -- --quiet
built=$((SECONDS - started))
if [ "$ci" = true ]; then
  echo "Slowest files of the build, seconds:"
  scripts/build_times.sh build/release | sed -n '1,25p'
  echo "Build: $built s"
  [ "$built" -le 1500 ] || { echo "test.sh: the build took $built s; the limit is 1500 s" >&2; exit 1; }
fi

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}  # tests run side by side; more threads each would only wait for each other
ctest --test-dir build/release --output-on-failure --timeout 300 -j "$(nproc)" "$@"
