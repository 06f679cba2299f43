#!/usr/bin/env bash
# Trains with Open MPI's mpirun: scripts/launch/mpirun.sh HOST1:2,HOST2:2 PIPELINE_CONFIG MODEL_DIR [more flags of train_detector]
# (HOST:N starts N replicas on HOST; the replicas meet on the first.)
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,3s/^# \{0,1\}//p' "$0" >&2; exit 2; }
hosts=$1 config=$2 model_dir=$3
shift 3
first=${hosts%%,*}
count=0
for host in ${hosts//,/ }; do
  [[ $host == *:* ]] && count=$((count + ${host##*:})) || count=$((count + 1))
done
exec mpirun --host "$hosts" -np "$count" --bind-to none \
  -x MASTER_ADDR="${first%%:*}" -x MASTER_PORT="${MASTER_PORT:-29500}" \
  "${TRAIN_DETECTOR:-train_detector}" --pipeline_config "$config" --model_dir "$model_dir" "$@"
