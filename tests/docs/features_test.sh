#!/usr/bin/env bash
# docs/features.md names only tests that exist, knows every state, and counts its rows right.
# usage: features_test.sh BUILD_DIR
set -euo pipefail
export LC_ALL=C
if [ $# -ne 1 ]; then
  echo "usage: features_test.sh BUILD_DIR" >&2
  exit 2
fi
page="$(dirname "$0")/../../docs/features.md"
rows=$(grep -E '^\| [SU][0-9]+\.[0-9]+ \|' "$page")
listing=$(ctest --test-dir "$1" -N)
existing=$(sed -nE 's/^ *Test +#[0-9]+: ([^ ]+)( +# .*)?( \(Disabled\))?$/\1/p' <<<"$listing")
named=$(sed -nE 's/.*\| test: `([^`]+)` \|$/\1/p' <<<"$rows" | sort -u)
failed=0

if [ -z "$existing" ] || [ -z "$named" ]; then
  echo "no tests in $1, or none named in $page"
  exit 1
fi
missing=$(grep -vxF -f <(echo "$existing") <<<"$named" || true)
if [ -n "$missing" ]; then
  printf 'tests named in docs/features.md that do not exist:\n%s\n' "$missing"
  failed=1
fi

unknown=$(grep -vE '^\| [^|]+ \| [^|]+ \| (done|partial|not yet) \| [^|]+ \|$' <<<"$rows" || true)
if [ -n "$unknown" ]; then
  printf 'rows without a known state, or with another number of columns:\n%s\n' "$unknown"
  failed=1
fi
unshown=$(grep -E '\| done \|' <<<"$rows" | grep -vE '\| (test: `[^`]+`|run: .+) \|$' || true)
if [ -n "$unshown" ]; then
  printf 'rows that are done, with neither test nor command:\n%s\n' "$unshown"
  failed=1
fi
twice=$(sed -E 's/^\| ([^ ]+) .*/\1/' <<<"$rows" | sort | uniq -d)
if [ -n "$twice" ]; then
  printf 'rows that stand here twice:\n%s\n' "$twice"
  failed=1
fi

for section in S0 S1 S2 S3 U2 all; do
  mine=$(if [ $section = all ]; then echo "$rows"; else grep -F "| $section." <<<"$rows"; fi)
  count() { grep -c "| $1 |" <<<"$mine" || true; }
  line="| $section | $(count 'done') | $(count 'partial') | $(count 'not yet') | $(wc -l <<<"$mine") |"
  if ! grep -qxF "$line" "$page"; then
    echo "the summary should say: $line"
    failed=1
  fi
done
exit $failed
