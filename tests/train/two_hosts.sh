#!/usr/bin/env bash
# Trains over two network namespaces joined by a cable of software, as over two machines: each has its own loopback, and the one
# way to the other is its address. Needs the right to make namespaces; ends with 77 (skipped) where that is missing.
#   two_hosts.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
build=$1 config=$2
if ! { command -v ip && [ "$(id -u)" = 0 ]; } >/dev/null; then
  echo "skipped: making network namespaces needs ip(8) and root"
  exit 77
fi
folder=$(mktemp -d) name=osprey$$
cleanup() {
  ip netns del "${name}a" 2>/dev/null || true
  ip netns del "${name}b" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
ip netns add "${name}a" 2>/dev/null || { echo "skipped: no network namespaces here"; exit 77; }
ip netns add "${name}b"
ip link add va$$ netns "${name}a" type veth peer name vb$$ netns "${name}b" 2>/dev/null || { echo "skipped: no veth here"; exit 77; }
ip -n "${name}a" addr add 10.77.0.1/24 dev va$$
ip -n "${name}b" addr add 10.77.0.2/24 dev vb$$
for side in a b; do
  ip -n "$name$side" link set lo up
  ip -n "$name$side" link set v$side$$ up
done

# train HOST FLAGS...: as the replica of one host, its model directory is its own
train() {
  local host=$1
  shift
  ip netns exec "$name$host" env OMP_NUM_THREADS=1 "$build/bin/train_detector" --pipeline_config "$config" \
    --model_dir "$folder/$host" --use_fake_data --set train_config.batch_size=8 --log_every_n 1 --num_train_steps 4 \
    --eval_every_n 100 "$@" >"$folder/$host.log" 2>&1
}
(RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 train b) &
other=$!
RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 train a ||
  { cat "$folder"/*.log; exit 1; }
wait $other || { cat "$folder"/*.log; exit 1; }
[ "$(wc -l <"$folder/a/metrics.jsonl")" = 4 ] || { echo "expected four lines of metrics"; cat "$folder"/*.log; exit 1; }
[ ! -e "$folder/b" ] || { echo "replica 1 wrote files"; exit 1; }

# The same by train_detector's own flags.
rm -rf "$folder/a"
(train b --worker_replicas 2 --task 1 --master 10.77.0.1:29501) &
other=$!
train a --worker_replicas 2 --task 0 --master 10.77.0.1:29501 || { cat "$folder"/*.log; exit 1; }
wait $other || { cat "$folder"/*.log; exit 1; }
[ "$(wc -l <"$folder/a/metrics.jsonl")" = 4 ] || { echo "expected four lines of metrics"; cat "$folder"/*.log; exit 1; }
