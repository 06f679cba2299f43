#!/usr/bin/env bash
# Installs what Osprey needs on Debian 12: packages from the distribution and libtorch in third_party/libtorch.
# Safe to run again: does nothing, and prints nothing, where everything is there.
#   scripts/setup.sh           with CUDA where an NVIDIA driver or nvcc is found, CPU only elsewhere
#   scripts/setup.sh --cuda    CUDA libraries in any case (about 2 GB), and nvcc where there is none of CUDA 13
#   scripts/setup.sh --cpu     CPU only in any case (about 545 MB)
#   scripts/setup.sh --tests   also the Python environment that the tests compare with, in build/venv
set -euo pipefail
cd "$(dirname "$0")/.."

readonly torch_version=2.11.0
readonly target=third_party/libtorch
PATH="$PATH:/usr/local/cuda/bin"
flavour=$(command -v nvcc nvidia-smi >/dev/null && echo cuda || echo cpu)
with_tests=false
for argument in "$@"; do
  case "$argument" in
    --cuda) flavour=cuda ;;
    --cpu) flavour=cpu ;;
    --tests) with_tests=true ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "setup.sh: unknown option '$argument' (try --help)" >&2; exit 2 ;;
  esac
done

fail() {
  echo "setup.sh: $1" >&2
  [ -s "${log:-}" ] && { echo "--- last lines of the failed command:" >&2; tail -n 12 "$log" >&2; }
  exit 1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

packages=(
  build-essential cmake ninja-build ccache git
  python3 python3-pip python3-venv
  protobuf-compiler libprotobuf-dev zlib1g-dev
  libopencv-core-dev libopencv-imgproc-dev libopencv-imgcodecs-dev libopencv-videoio-dev libturbojpeg0-dev
  libeigen3-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev rapidjson-dev libpugixml-dev
  libleveldb-dev libsnappy-dev libonnx-dev libflatbuffers-dev flatbuffers-compiler libminizip-dev libgoogle-perftools-dev libgloo-dev libgtest-dev libgmock-dev libbenchmark-dev
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null ||
    fail "no apt-get here; install the equivalents of: ${missing[*]}"
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "needs root or sudo to install: ${missing[*]}"
    sudo=(sudo)
  fi
  echo "setup.sh: installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${sudo[@]}" apt-get update -qq >"$log" 2>&1 || fail "'apt-get update' failed (no network?)"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
    fail "'apt-get install' failed (no network, or no space left on the disk?)"
fi

# Downloads wheels and unpacks those of torch and NVIDIA into $staging/tree; nothing of Python is needed to build or run Osprey afterwards.
staging=
trap 'rm -rf "$log" "$staging"' EXIT
unpack_wheels() {  # [--no-deps] NAME==VERSION ...
  staging=$(mktemp -d third_party/.libtorch.XXXXXX)
  python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --dest "$staging/wheels" "$@" >"$log" 2>&1 ||
    fail "pip could not download $* (no network, or no space left on the disk?)"
  mkdir "$staging/tree"
  for wheel in "$staging"/wheels/torch-*.whl "$staging"/wheels/nvidia_*.whl; do
    [ -e "$wheel" ] || continue
    python3 -m zipfile -e "$wheel" "$staging/tree" >"$log" 2>&1 || fail "could not unpack $(basename "$wheel") (no space left on the disk?)"
  done
}

stamp="$target/.version"
wanted="$torch_version $flavour"
present=$(cat "$stamp" 2>/dev/null || true)
if [ "$present" != "$wanted" ] && [ "$present" != "$torch_version cuda" ]; then
  needed_mib=$([ "$flavour" = cuda ] && echo 9000 || echo 2500)
  free_mib=$(df -Pm third_party | awk 'NR==2 {print $4}')
  [ "$free_mib" -ge "$needed_mib" ] || fail "libtorch needs $needed_mib MiB free under third_party, $free_mib MiB are left"
  echo "setup.sh: fetching libtorch $torch_version ($flavour) into $target"
  if [ "$flavour" = cuda ]; then
    unpack_wheels "torch==$torch_version"
  else
    unpack_wheels --no-deps "torch==$torch_version" "nvidia-cuda-runtime==13.0.*" "nvidia-cuda-cupti==13.0.*"
  fi
  if [ "$flavour" = cpu ]; then  # the CUDA half of the wheel is dead weight without the other libraries
    rm -f "$staging"/tree/torch/lib/libtorch_cuda*.so "$staging"/tree/torch/lib/libc10_cuda.so "$staging"/tree/torch/lib/libtorch_nvshmem.so
  fi
  rm -rf "$target"
  mkdir -p "$target"
  mv "$staging"/tree/torch "$target/"
  if [ -d "$staging/tree/nvidia" ]; then mv "$staging"/tree/nvidia "$target/"; fi
  rm -rf "$staging"
  echo "$wanted" >"$stamp"
fi

# nvcc goes where its headers and libraries are, which is where CMake looks for it first.
cuda="$target/nvidia/cu13"
if [ "$flavour" = cuda ] && [ ! -x "$cuda/bin/nvcc" ] && ! nvcc --version 2>/dev/null | grep -q 'release 13\.'; then
  echo "setup.sh: fetching nvcc into $cuda"
  unpack_wheels --no-deps nvidia-{cuda-nvcc,cuda-crt,cuda-cccl,nvvm}==13.0.*
  chmod +x "$staging"/tree/nvidia/cu13/{bin,nvvm/bin}/*
  ln -sfn lib "$cuda/lib64"  # where nvcc looks for libraries
  # nvcc itself comes last: where it is, all is.
  mv "$staging/tree/nvidia/cu13/bin/nvcc" "$staging/nvcc"
  cp -r "$staging"/tree/nvidia/cu13/. "$cuda/" 2>"$log" || fail "could not copy nvcc into $cuda (no space left on the disk?)"
  mv "$staging/nvcc" "$cuda/bin/nvcc"
  rm -rf "$staging"
fi

if $with_tests; then
  venv=build/venv
  wanted_tools="torch==$torch_version torchvision==0.26.0 numpy pycocotools tensorboard onnxruntime ai-edge-litert"
  if [ "$(cat "$venv/.installed" 2>/dev/null || true)" != "$wanted_tools" ]; then
    echo "setup.sh: Python environment for the comparisons in $venv"
    python3 -m venv --clear "$venv" >"$log" 2>&1 || fail "could not create $venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --disable-pip-version-check $wanted_tools >"$log" 2>&1 ||
      fail "pip could not install $wanted_tools"
    echo "$wanted_tools" >"$venv/.installed"
  fi
fi
