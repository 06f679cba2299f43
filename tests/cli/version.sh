#!/usr/bin/env bash
# --version and run_info.json name what a program is made of, with the commit where there is one.
#   version.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "version.sh: $*"; exit 1; }

# What a program says.
said=$("$build/bin/config_diff" --version)
for part in "osprey [0-9]" "libtorch [0-9]+\.[0-9]+" "protobuf [0-9]+\.[0-9]+" "opencv [0-9]+\.[0-9]+"; do
  grep -qE "^$part" <<<"$said" || fail "no line like '$part': $said"
done
"$build/bin/train_detector" --pipeline_config "$source/configs/quickstart.config" --use_fake_data --num_train_steps 1 \
  --train_batch_size 1 --model_dir "$folder/run" --set model.ssd.num_classes=3 --device cpu 2>/dev/null
while read -r part number; do
  grep -qF "\"$part\": \"$number\"" "$folder/run/run_info.json" || fail "$part $number is not in run_info.json"
done <<<"$said"

# What the build writes down: nothing outside a git checkout, else the commit, and whether there are changes.
command -v git >/dev/null || { echo "version.sh: there is no git here"; exit 77; }
written() {
  cmake -DSOURCE="$folder/tree" -DOUTPUT="$folder/commit.cc" -P "$source/cmake/WriteCommit.cmake"
  sed -n 's/.*return "\(.*\)".*/\1/p' "$folder/commit.cc"
}
mkdir "$folder/tree"
git init -q "$folder"  # a repository around the sources is not theirs
[ -z "$(written)" ] || fail "a commit without a checkout: $(written)"
rm -r "$folder/.git"
cd "$folder/tree"
git init -q . && echo one >file && git add file
git -c user.name=a -c user.email=a@b commit -q -m one && git tag -m v1 -a v1 2>/dev/null || true
[ "$(written)" = "$(git rev-parse --short=12 HEAD)" ] || fail "$(written) is not the commit"
touch -d 2001-01-01 "$folder/commit.cc"
written >/dev/null
[ "$(date -r "$folder/commit.cc" +%Y)" = 2001 ] || fail "the same commit is written again"
echo two >file
[ "$(written)" = "$(git rev-parse --short=12 HEAD)+changes" ] || fail "$(written) does not tell of changes"
