#!/bin/sh
# Debian packages from what is built in target/release. Usage: dist/packages.sh build | lint | base | try
# build: packages in target/packages. lint: lintian about them, errors and warnings are failures. base: a folder made of Debian's own
# packages, once (debootstrap, root, network), in target/packages/base.tar. try: dist/packages-try.sh and dist/packages-boot.sh in copies of it,
# the second in an emulated machine as well.
set -eu

cd "$(dirname "$0")/.."
root=$PWD
out=$root/target/packages
tree=$out/sluice
want=${1:-build}

# The sources that the packages are made of, with debian/ where Debian expects it; links to nothing outside, no history.
lay_out() {
    rm -rf "$tree"
    mkdir -p "$tree"
    for part in Makefile CHANGELOG.md README.md LICENSE-MIT client dist docs examples; do cp -a "$part" "$tree/"; done
    rm -rf "$tree/client/web"
    find "$tree" -name __pycache__ -prune -exec rm -rf {} +
    cp -a dist/debian "$tree/debian"
    cp dist/sluice.sysusers "$tree/debian/sluice.sysusers"
}

build() {
    for program in dpkg-buildpackage dh dh_python3; do
        command -v $program >/dev/null || { echo "packages: $program is missing: apt install dpkg-dev debhelper dh-python" >&2; exit 3; }
    done
    for file in sluice libsluice_c.so librapi.so libscrapi.so; do
        [ -e target/release/$file ] || { echo "packages: there is no target/release/$file: make packages builds it" >&2; exit 3; }
    done
    rm -f "$out"/*.deb "$out"/*.buildinfo "$out"/*.changes
    lay_out
    # What make said to its children is not for the packages.
    (cd "$tree" && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS BUILT="$root/target/release" dpkg-buildpackage --build=binary --no-sign >"$out/build.log" 2>&1) ||
        { tail -40 "$out/build.log" >&2; exit 1; }
    rm -rf "$tree"
    ls -l "$out"/*.deb
}

case "$want" in
build) build ;;
lint)
    command -v lintian >/dev/null || { echo "SKIPPED: lintian is not here: apt install lintian"; exit 0; }
    lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$out"/*.changes
    ;;
base)
    [ -e "$out/base.tar" ] && exit 0
    command -v debootstrap >/dev/null || { echo "SKIPPED: debootstrap is not here: apt install debootstrap" >&2; exit 3; }
    rm -rf "$out/base"
    mkdir -p "$out"
    # What the packages depend on, so that nothing is fetched later; libc6-dev and gcc for a program that is linked with the libraries.
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,iproute2,procps,ca-certificates,python3,man-db,libgcc-s1 \
        bookworm "$out/base" >"$out/base.log" 2>&1 || { tail -5 "$out/base.log" >&2; rm -rf "$out/base"; exit 3; }
    rm -rf "$out/base/var/cache/apt/archives"/*.deb "$out/base/var/lib/apt/lists"/*
    tar -C "$out/base" -cf "$out/base.tar" .
    rm -rf "$out/base"
    ;;
try)
    "$0" base || { echo "SKIPPED: there is no folder of Debian's own packages to try ours in"; exit 0; }
    dist/packages-try.sh "$out"
    dist/packages-boot.sh "$out" container
    dist/packages-boot.sh "$out" emulated
    ;;
*)
    echo "packages: $want is not build, lint, base or try" >&2
    exit 2
    ;;
esac
