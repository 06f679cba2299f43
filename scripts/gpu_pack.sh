#!/usr/bin/env bash
# Packs what scripts/gpu_check.sh needs for a machine with a GPU and PyTorch, but without the packages that Osprey is built with.
# usage: scripts/gpu_pack.sh [--build DIR] [--configs DIR] FILE.tar.gz
#   --build DIR    default build/release of this repository; built with nvcc and -DOSPREY_BUILD_BENCH=ON
#   --configs DIR  of the TF Object Detection API's configs: for the parts `memory`, `traces`, `roofline` and `peers`
# There: tar xzf FILE.tar.gz && osprey_gpu/check.sh [PART...]; the parts are those of gpu_check.sh, python3 is the one with PyTorch, and the
# C and C++ libraries have to be as new as those here.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
build=$here/build/release configs='' archive=''
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=${2:?} && shift ;;
    --configs) configs=${2:?} && shift ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0" && exit 0 ;;
    -*) echo "gpu_pack.sh: unknown flag '$1' (try --help)" >&2 && exit 2 ;;
    *) archive=$1 ;;
  esac
  shift
done
[ -n "$archive" ] || { echo "gpu_pack.sh: say where the archive is to be (try --help)" >&2; exit 2; }
archive=$(realpath -m "$archive") build=$(realpath "$build")
[ -z "$configs" ] || configs=$(realpath "$configs")
cd "$here"
programs=(bin/train_detector bin/create_records bin/eval_detector bin/export_model bin/detect bin/operators_bench bin/step_bench bin/convolution_bench tests/kernels_test tests/train_test)
for program in "${programs[@]}"; do
  [ -x "$build/$program" ] || { echo "gpu_pack.sh: $build/$program is missing: configure with -DOSPREY_BUILD_BENCH=ON" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pack=$folder/osprey_gpu
mkdir -p "$pack/build/bin" "$pack/build/tests" "$pack/lib" "$pack/public_configs"
for program in "${programs[@]}"; do
  strip -o "$pack/build/$program" "$build/$program"
done
cp -r configs scripts bench "$pack"
[ -z "$configs" ] || cp "$configs"/ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync.config "$configs"/ssd_mobilenet_v1_300x300_coco14_sync.config "$pack/public_configs"

# What they need, but for libtorch's own libraries and those that every system has. Those that read maps of the earth, medical pictures and
# videos, which bring a hundred others, are replaced by some whose functions return nothing.
declare -A place=()
while read -r name path; do place[$name]=$path; done < <(ldd "$build/lib/libosprey.so" "${programs[@]/#/$build/}" | awk '/=> \// {print $1, $3}')
reader_of_pictures=$(ldd "$build/lib/libosprey.so" | awk '/libopencv_imgcodecs/ {print $3}')
needed() { objdump -p "$@" | awk '/NEEDED/ {print $2}'; }
mapfile -t left < <(needed "${programs[@]/#/$build/}")
while [ ${#left[@]} -gt 0 ]; do
  name=${left[0]} && left=("${left[@]:1}")
  [ ! -e "$pack/lib/$name" ] || continue
  case "$name" in
    libtorch* | libc10* | libcuda* | libcublas* | libcudnn* | libcufft* | libcufile* | libcupti* | libcurand* | libcusolver* | libcusparse* | \
      libnv* | libnccl* | ld-linux* | libc.so* | libm.so* | libstdc++* | libgcc_s* | libdl.* | libpthread.* | librt.*) ;;
    libgdal* | libgdcm* | libopencv_videoio*)
      caller=$reader_of_pictures
      [[ $name != libopencv_videoio* ]] || caller=$build/bin/detect
      symbols() { nm -D "$1" "$2" | awk '{print $NF}' | sed 's/@.*//' | sort -u; }
      comm -12 <(symbols --undefined-only "$caller") <(symbols --defined-only "${place[$name]}") |
        sed 's/.*/.globl &\n.type &, @function\n&:/; $a .section .note.GNU-stack\n.text\nxor %eax, %eax\nret' |
        gcc -shared -x assembler - -o "$pack/lib/$name" -Wl,-soname,"$name"
      ;;
    *)
      [ -n "${place[$name]:-}" ] || { echo "gpu_pack.sh: $name was not found" >&2; exit 1; }
      cp -L "${place[$name]}" "$pack/lib/$name" && strip --strip-unneeded "$pack/lib/$name"
      mapfile -t -O ${#left[@]} left < <(needed "${place[$name]}")
      ;;
  esac
done

# PyTorch's own python3 must not find these libraries, so only our programs are told of them.
mv "$pack/build" "$pack/programs"
for program in "${programs[@]}"; do
  mkdir -p "$pack/build/$(dirname "$program")"
  cat >"$pack/build/$program" <<'END'
#!/usr/bin/env bash
pack=$(cd "$(dirname "$0")/../.." && pwd)
LD_LIBRARY_PATH=$pack/lib:${OSPREY_TORCH_LIB:?is to be the folder lib of PyTorch; check.sh sets it} OSPREY_SOURCE_DIR=$pack exec "$pack/programs/$(basename "$(dirname "$0")")/$(basename "$0")" "$@"
END
  chmod +x "$pack/build/$program"
done
cat >"$pack/check.sh" <<'END'
#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
OSPREY_TORCH_LIB=$(python3 -c 'import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0] + "/lib")')
export OSPREY_TORCH_LIB
[ $# -gt 0 ] || set -- operators steps runs pictures policies rates precisions curves memory traces roofline peers sanitizer
exec scripts/gpu_check.sh --build build --configs public_configs "$@"
END
chmod +x "$pack/check.sh"
[ -n "$configs" ] || sed -i 's/ --configs public_configs//' "$pack/check.sh"
tar czf "$archive" -C "$folder" osprey_gpu
echo "$archive: $(du -m "$archive" | cut -f1) MiB, $(find "$pack/lib" -type f | wc -l) libraries"
