#!/usr/bin/env bash
# Trains two replicas on this machine through each template of scripts/launch whose launcher is here: torchrun from the Python
# environment of the tests, mpirun and Slurm where they are installed. Ends with 77 (skipped) where there is none of them.
#   launch_templates.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TRAIN_DETECTOR=$build/bin/train_detector PATH=$source/build/venv/bin:$PATH
tried=0

# check NAME COMMAND...: the command trains into $folder/NAME
check() {
  local name=$1
  shift
  echo "== $name"
  tried=$((tried + 1))
  if ! "$@" >"$folder/$name.log" 2>&1 || ! grep -q '2 replicas of 2 images each' "$folder/$name/train.log" || [ ! -s "$folder/$name/ckpt-3.osprey" ]; then
    cat "$folder/$name.log" "$folder/$name"-*.out "$folder/$name/train.log" 2>/dev/null
    ls "$folder/$name" 2>/dev/null
    echo "$name has failed"
    exit 1
  fi
}
config=$source/configs/quickstart.config
flags=(--use_fake_data --num_train_steps 3 --set train_config.batch_size=4)
port=$((20000 + $$ % 10000))

if command -v torchrun >/dev/null; then
  check torchrun "$source/scripts/launch/torchrun.sh" 1 "127.0.0.1:$port" "$config" "$folder/torchrun" 2 "${flags[@]}"
fi
if command -v mpirun >/dev/null; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 MASTER_PORT=$((port + 10000))
  check mpirun "$source/scripts/launch/mpirun.sh" localhost:2 "$config" "$folder/mpirun" "${flags[@]}"
  unset MASTER_PORT
fi
if command -v sbatch >/dev/null && sinfo --noheader 2>/dev/null | grep -q .; then
  check slurm sbatch --wait --nodes=1 --ntasks-per-node=2 --output="$folder/slurm-%j.out" \
    "$source/scripts/launch/slurm.sbatch" "$config" "$folder/slurm" "${flags[@]}"
fi
if [ $tried = 0 ]; then
  echo "skipped: neither torchrun nor mpirun nor Slurm is here"
  exit 77
fi
