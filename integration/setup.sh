#!/usr/bin/env bash
# Makes a bare Debian or Ubuntu able to run the project; the Makefile calls it.
#   setup.sh system [--with-go]   Java 17+, Maven and Python's venv, through apt when something is missing
#   setup.sh tests                what only tests need: a browser, Prometheus, namespaces, stepped clocks, containers
#   setup.sh compiler PYTHON      a C compiler and that Python's headers, for `make compile`
#   setup.sh venv DIRECTORY       a virtual environment with the project and its dev dependencies
# It installs system packages only as root or with sudo that asks no password; otherwise it says what to run.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# The first Python that is new enough; `python3` is 3.10 on Ubuntu 22.04.
find_python() {
  local name
  for name in python3 python3.13 python3.12 python3.11; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
}

java_version() {
  local java=java
  if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then java=$JAVA_HOME/bin/java; fi
  "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

in_apt() { apt-cache show "$1" >/dev/null 2>&1; }

# The first of its arguments that apt can install; Debian 13 has no Java 17, Ubuntu 22.04 calls its newer Python by name.
first_in_apt() {
  local name
  for name in "$@"; do
    if in_apt "$name"; then
      echo "$name"
      return
    fi
  done
}

missing_commands() {
  local version python
  version=$(java_version || true)
  [ "${version:-0}" -ge 17 ] || echo java
  command -v mvn >/dev/null || echo maven
  command -v make >/dev/null || echo make
  python=$(find_python)
  [ -n "$python" ] || echo python
  # Debian keeps ensurepip apart, and venv fails half-way without it.
  [ -z "$python" ] || "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python-venv
}

# Package names for what is missing, one per line. apt's lists must be there.
packages_for() {
  local name
  for name in "$@"; do
    case $name in
      java) first_in_apt openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless ;;
      python) printf '%s\n' python3.11 python3.11-venv ;;
      python-venv) first_in_apt "$(find_python)-venv" python3-venv ;;
      *) echo "$name" ;;
    esac
  done
}

# Go's load client needs 1.21, which fetches newer toolchains itself; an older one would be a download for nothing.
go_is_useful_in_apt() {
  local version
  version=$(apt-cache policy golang-go | sed -n 's/.*Candidate: .*:1\.\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 21 ]
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

system() {
  local missing packages with_go=${1:-}
  missing=$(missing_commands)
  if [ "$with_go" = --with-go ] && command -v go >/dev/null; then with_go=; fi
  [ -n "$missing$with_go" ] || return 0
  command -v apt-get >/dev/null ||
    fail "missing: ${missing//$'\n'/, }. Install Java 17 or newer, Maven, make and Python 3.11 or newer, then try again."
  if ! as_root true 2>/dev/null; then
    # shellcheck disable=SC2086 # one argument per line is meant
    packages=$(packages_for $missing | tr '\n' ' ')
    fail "missing: ${missing//$'\n'/, }. As root, run: apt-get update && apt-get install -y $packages"
  fi
  export DEBIAN_FRONTEND=noninteractive
  echo "setup: refreshing apt's lists" >&2
  as_root apt-get update -qq
  # shellcheck disable=SC2086
  packages=$(packages_for $missing)
  if [ -n "$with_go" ] && go_is_useful_in_apt; then packages+=$'\ngolang-go'; fi
  [ -n "$packages" ] || return 0
  echo "setup: installing ${packages//$'\n'/ }" >&2
  # Slim images drop this directory, and Java's package fails to configure without it.
  as_root mkdir -p /usr/share/man/man1
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $packages >&2
  missing=$(missing_commands)
  [ -z "$missing" ] || fail "still missing after installing: ${missing//$'\n'/, }"
}

missing_for_tests() {
  command -v chromium >/dev/null || printf '%s\n' chromium fonts-dejavu-core
  command -v prometheus >/dev/null && command -v promtool >/dev/null || echo prometheus
  command -v ip >/dev/null || echo iproute2
  command -v dockerd >/dev/null || echo docker.io
  command -v debootstrap >/dev/null || echo debootstrap
  [ -e /usr/lib/cni/bridge ] || echo containernetworking-plugins
  compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || echo libfaketime
}

# Tests say themselves what they lack, so nothing here is an error.
tests() {
  local missing
  missing=$(missing_for_tests)
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
    echo "setup: tests will miss ${missing//$'\n'/, }. As root, run: apt-get update && apt-get install -y ${missing//$'\n'/ }" >&2
    return 0
  fi
  echo "setup: installing ${missing//$'\n'/ } for the tests" >&2
  as_root apt-get update -qq || true
  # One by one: what a distribution lacks must not keep the rest away.
  local name
  for name in $missing; do
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$name" >&2 ||
      echo "setup: $name cannot be installed here" >&2
  done
}

# The virtual environment's own Python says where its headers are; a Python that was not apt's brings them along.
missing_for_compiler() {
  local python=$1
  command -v "${CC:-cc}" >/dev/null || printf '%s\n' gcc libc6-dev
  "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
    "$python" -c 'import sys; print("python3.%d-dev" % sys.version_info[1])'
}

compiler() {
  local missing
  missing=$(missing_for_compiler "$1")
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
    fail "compiling needs ${missing//$'\n'/, }. As root, run: apt-get update && apt-get install -y ${missing//$'\n'/ }"
  fi
  echo "setup: installing ${missing//$'\n'/ } to compile with" >&2
  as_root apt-get update -qq
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $missing >&2
}

venv() {
  local directory=$1 python
  if ! "$directory/bin/python" -c 'import pip' 2>/dev/null; then
    python=$(find_python)
    [ -n "$python" ] || fail "Python 3.11 or newer is needed; run: make setup"
    echo "setup: making $directory with $python" >&2
    rm -rf "$directory"
    "$python" -m venv "$directory" || fail "cannot make $directory; as root, run: apt-get install -y python3-venv"
  fi
  echo "setup: installing Python packages into $directory" >&2
  "$directory/bin/python" -m pip install --quiet --editable '.[dev]'
}

case ${1:-} in
  system) system "${2:-}" ;;
  tests) tests ;;
  compiler) compiler "${2:?python}" ;;
  venv) venv "${2:?directory}" ;;
  *) fail "usage: setup.sh system [--with-go] | tests | compiler PYTHON | venv DIRECTORY" ;;
esac
