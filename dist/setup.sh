#!/bin/sh
# Installs what the build, the demonstration, the tests or fuzzing need on a Debian machine: only what is missing.
# Usage: dist/setup.sh build | demo | test | fuzz | packages | emulated
set -eu

want=${1:-build}
packages="build-essential"
case "$want" in
build | fuzz) ;;
packages) packages="$packages debhelper dh-python python3 lintian debootstrap systemd-container iproute2" ;;
emulated) packages="$packages qemu-system-x86 debootstrap e2fsprogs python3" ;;
demo) packages="$packages ffmpeg iproute2 fonts-dejavu-core" ;;
test)
    packages="$packages ffmpeg iproute2 iputils-ping fonts-dejavu-core iperf3 tshark clang-14 llvm-14 libbpf-dev git python3 openssl nginx-light chromium openmpi-bin libopenmpi-dev libfftw3-dev libfftw3-mpi-dev postgresql slapd ldap-utils rsync slurm-wlm munge"
    # Node from elsewhere will do.
    command -v npm >/dev/null 2>&1 || packages="$packages nodejs npm"
    ;;
*)
    echo "setup: $want is not build, demo, test, fuzz, packages or emulated" >&2
    exit 2
    ;;
esac

missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "setup: these packages are missing and only root can install them:$missing" >&2
        exit 1
    fi
    echo "setup: installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    # No package starts its server: those of tests are the tests' own. What says so already stays as it is.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod 755 /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    # shellcheck disable=SC2086 # the list is meant to be split
    apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 || {
        apt-get update >/dev/null
        apt-get install -y --no-install-recommends $missing >/dev/null
    }
fi

# The oldest Rust that builds the project stands in Cargo.toml as rust-version.
oldest=$(sed -n 's/^rust-version = "1\.\([0-9]*\).*/\1/p' "$(dirname "$0")/../Cargo.toml" | head -n 1)
newest_enough() {
    command -v cargo >/dev/null 2>&1 || return 1
    minor=$(cargo --version | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
    [ "${minor:-0}" -ge "$oldest" ]
}
if ! newest_enough; then
    if [ "$(id -u)" = 0 ] && apt-get install -y --no-install-recommends rustup >/dev/null 2>&1; then
        rustup default stable
    fi
    newest_enough || {
        echo "setup: Rust 1.$oldest or newer is needed: install it with rustup (stable), then run this again" >&2
        exit 1
    }
fi

# What builds the pages for browsers, and drives a browser in their tests; without it these say that they were skipped.
web=$(dirname "$0")/../client/web
installed="$web/node_modules/.package-lock.json"
# A file that is not there is not older, says dash.
if [ "$want" = test ] && { [ ! -e "$installed" ] || [ "$web/package-lock.json" -nt "$installed" ]; }; then
    echo "setup: installing what client/web/package-lock.json names" >&2
    (cd "$web" && npm ci --ignore-scripts --no-audit --no-fund >/dev/null 2>&1) ||
        echo "setup: npm could not install it (no network?): tests of the pages will be skipped" >&2
fi

# What cargo-fuzz drives needs a compiler that can tell it which branches were taken: a nightly one, beside the stable one.
if [ "$want" = fuzz ]; then
    command -v rustup >/dev/null 2>&1 || {
        echo "setup: fuzzing needs a nightly Rust beside the stable one, which rustup keeps: this cargo is not rustup's" >&2
        exit 1
    }
    if ! rustup toolchain list | grep -q '^nightly'; then
        echo "setup: installing a nightly Rust" >&2
        rustup toolchain install nightly --profile minimal --no-self-update >/dev/null 2>&1 || {
            echo "setup: rustup could not install a nightly Rust (no network?)" >&2
            exit 1
        }
    fi
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        echo "setup: installing cargo-fuzz" >&2
        cargo install --quiet --locked cargo-fuzz >/dev/null || {
            echo "setup: cargo could not install cargo-fuzz" >&2
            exit 1
        }
    fi
fi
