#!/bin/sh
# Test programs in the emulated machine (dist/emulated.sh): on Debian's kernel, with what this machine's kernel may lack, under cgroup v2.
# Usage: dist/emulated-tests.sh FOLDER:TEST ... (root). FOLDER is a crate's, TEST a test program of it, which cargo builds, or the path of
# one that is built. The kernel's plane is played over HTB, then over HFSC. What fails beside others is asked again alone: the machine is
# slow, and what it does at once it does late.
set -eu

cd "$(dirname "$0")/.."
# How long a test program may take there, in seconds.
LIMIT=${SLUICE_EMULATED_TESTS:-3600}

say() { echo "test-kernel: $*"; }
fail() { echo "test-kernel: FAILED: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "SKIPPED: test-kernel: an image of a machine needs root to be made"; exit 0; }

# In a namespace of processes of its own: the machine goes with it, however it ends.
if [ "${SLUICE_TRYING:-}" != yes ]; then
    status=0
    dist/emulated.sh image || status=$?
    [ $status != 3 ] || { echo "SKIPPED: test-kernel: there is no emulated machine (above)"; exit 0; }
    [ $status = 0 ] || exit $status
    place=$(mktemp -d /tmp/sluice-kernel.XXXXXX)
    trap 'rm -rf --one-file-system "$place"' EXIT
    SLUICE_TRYING=yes PLACE=$place unshare --mount-proc --pid --fork --kill-child "$0" "$@" &
    inner=$!
    # With it goes the namespace, and with that all that runs there.
    trap 'kill -KILL $inner; wait $inner || true; exit 130' INT TERM
    wait $inner
    exit
fi

# Programs that cargo built for a test: itself, and those that it starts; a line each.
built() {
    cargo test --locked --no-run --message-format=json --manifest-path "$1/Cargo.toml" --test "$2" |
        sed -n 's/.*"name":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/p'
}

# The tests read files of the sources where they were built. Debug information stays here.
root=$PWD
mkdir -p "$PLACE/files$root"
git ls-files -z -- ':!docs' ':!client/web' | tar --null --files-from=- -cf - | tar -C "$PLACE/files$root" -xf -
bring() {
    mkdir -p "$PLACE/files$(dirname "$1")"
    strip --strip-debug -o "$PLACE/files$1" "$1"
}
: >"$PLACE/programs"
for one in "$@"; do
    folder=${one%%:*} test=${one#*:}
    case "$test" in
    */*)
        test=$(realpath "$test")
        bring "$test"
        echo "$folder $test" >>"$PLACE/programs"
        ;;
    *)
        built "$folder" "$test" >"$PLACE/built" || fail "cargo does not build $one"
        while read -r name program; do
            bring "$program"
            [ "$name" != "$test" ] || echo "$folder $program" >>"$PLACE/programs"
        done <"$PLACE/built"
        ;;
    esac
done
[ "$(wc -l <"$PLACE/programs")" = $# ] || fail "a test program was not built"
tar -C "$PLACE/files" -cf "$PLACE/files.tar" .
rm -rf "$PLACE/files"

dist/emulated.sh boot "$PLACE"
in_it() { dist/emulated.sh in "$PLACE" "$@"; }
# A test program there, with this variable of its environment and these arguments of libtest's.
tests() {
    folder=$1 program=$2 setting=$3
    shift 3
    in_it env RUST_BACKTRACE=0 "$setting" timeout "$LIMIT" sh -c 'cd "$1" && shift && exec "$@"' sh "$root/$folder" "$program" "$@" 2>&1
}
# What this kernel is too old for, by the names that stand in emulated-tests.tcx.
too_old() { ! printf '6.6\n%s\n' "$(in_it uname -r)" | sort --check=quiet --version-sort; }

: >"$PLACE/failed"
: >"$PLACE/skipped"
passed=0
# Runs the tests of a program that these arguments leave, and counts what they say; the first of them is the variable.
judged() {
    folder=$1 program=$2 setting=$3
    shift 3
    name="$(basename "${program%-*}")"
    [ "$setting" = "$PLAIN" ] || name="$name, $setting"
    say "$folder: $name"
    # What it says is followed while it says it.
    { tests "$folder" "$program" "$setting" "$@" && echo ended; } </dev/null | tee "$PLACE/said" | sed -u '/^ended$/d'
    grep -q '^test result: ' "$PLACE/said" || echo "$name: ended without a result" >>"$PLACE/failed"
    count=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$PLACE/said")
    passed=$((passed + ${count:-0}))
    # One test may have more than one reason.
    grep -a 'SKIPPED: ' "$PLACE/said" | sed "s/.*SKIPPED: /$name: /" | sort -u >"$PLACE/why"
    passed=$((passed - $(sed 's/.* \[\(.*\)\]$/\1/' "$PLACE/why" | sort -u | wc -l)))
    cat "$PLACE/why" >>"$PLACE/skipped"
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$PLACE/said" | sort -u >"$PLACE/again"
    while read -r test; do
        if tests "$folder" "$program" "$setting" --exact "$test" </dev/null >"$PLACE/alone"; then
            say "$test passes alone"
            passed=$((passed + 1))
        else
            sed 's/^/    /' "$PLACE/alone"
            echo "$name: $test" >>"$PLACE/failed"
        fi
    done <"$PLACE/again"
}
PLAIN=SLUICE_SCHEDULER=htb
# What of the plane is played over HFSC as well.
PLANE="kernel::crash kernel::groups kernel::managers kernel::masks kernel::plane kernel::shared kernel::styles kernel::traffic"

while read -r folder program; do
    name=$(basename "${program%-*}")
    set --
    if [ "$folder:$name" = driver/linux:linux ] && too_old; then
        tests "$folder" "$program" "$PLAIN" --list </dev/null >"$PLACE/list" || fail "$name does not list its tests"
        sed '/^#/d' dist/emulated-tests.tcx >"$PLACE/left"
        while read -r test; do
            grep -qx "$test: test" "$PLACE/list" || fail "dist/emulated-tests.tcx: there is no test $test"
            echo "$name: it needs TCX (Linux 6.6) [$test]" >>"$PLACE/skipped"
            set -- "$@" --skip "$test"
        done <"$PLACE/left"
    fi
    judged "$folder" "$program" "$PLAIN" "$@"
    if [ "$folder:$(basename "${program%-*}")" = driver/linux:linux ]; then
        # shellcheck disable=SC2086 # the list is meant to be split
        judged "$folder" "$program" SLUICE_SCHEDULER=hfsc $PLANE "$@"
    fi
done <"$PLACE/programs"
dist/emulated.sh off "$PLACE"

sed 's/^/SKIPPED  /' "$PLACE/skipped"
sed 's/^/FAILED   /' "$PLACE/failed"
skipped=$(sed 's/.* \[\(.*\)\]$/\1/' "$PLACE/skipped" | sort -u | wc -l)
echo "$passed passed, $(wc -l <"$PLACE/failed") failed, $skipped skipped"
[ ! -s "$PLACE/failed" ]
