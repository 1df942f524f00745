#!/usr/bin/env bash
# Finds a Python of 3.11 or newer on the runner; environment.py does the rest with it.
set -euo pipefail

fail() {
  echo "::error title=Hostside::$1"
  exit 2
}

usable() {
  "$1" -I -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  local name file
  for name in python3.13 python3.12 python3.11 python3 python; do
    if file=$(command -v "$name") && usable "$file"; then
      echo "$file"
      return
    fi
  done
  for file in "${RUNNER_TOOL_CACHE:-/opt/hostedtoolcache}"/Python/3.1[1-9]*/*/bin/python3; do
    if [ -x "$file" ] && usable "$file"; then
      echo "$file"
      return
    fi
  done
  if command -v uv >/dev/null; then
    # Not quiet: that would hide why it failed.
    { uv python install --no-progress 3.12 >&2 && uv python find 3.12; } || true
  fi
}

[ "${RUNNER_OS:-Linux}" != Windows ] || fail "Hostside runs on Linux and macOS runners, not on Windows"

python=${HOSTSIDE_PYTHON:-}
case $python in
  /*) ;;
  */*) python=$PWD/$python ;;
esac
# Version managers ask the folder which Python is meant; the workspace, which may hold a stranger's
# code, shall not answer.
cd "$GITHUB_ACTION_PATH"
if [ -n "$python" ]; then
  usable "$python" || fail "input python: $python is no Python of 3.11 or newer with venv"
else
  python=$(find_python)
  [ -n "$python" ] || fail "this runner has no Python of 3.11 or newer, and no uv that brings one; add actions/setup-python before this step"
fi

exec "$python" -I "$GITHUB_ACTION_PATH/deploy/action/environment.py"
