#!/bin/sh
# The packages in a folder made of Debian's own (packages.sh base): installed to a first reservation, installed again over a
# reservation, purged while one is in force, purged without one. Usage: dist/packages-try.sh FOLDER-OF-PACKAGES (root; no network)
set -eu

out=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "SKIPPED: trying packages needs root"; exit 0; }

# In namespaces of its own: what is mounted there, and its network, go with it.
if [ "${SLUICE_TRYING:-}" != yes ]; then
    place=$(mktemp -d /tmp/sluice-packages.XXXXXX)
    trap 'rm -rf --one-file-system "$place"' EXIT
    SLUICE_TRYING=yes PLACE=$place unshare --mount --net --pid --ipc --uts --fork --kill-child "$0" "$out"
    exit
fi

mount --make-rprivate /
mount -t tmpfs -o size=1500m tmpfs "$PLACE"
base=$PLACE/debian
mkdir "$base"
tar -C "$base" -xf "$out/base.tar"
mount -t proc proc "$base/proc"
mount -t sysfs sys "$base/sys"
mount -t bpf bpf "$base/sys/fs/bpf" 2>/dev/null || true
mount --rbind /dev "$base/dev"
mount -t tmpfs tmpfs "$base/run"
ip link set lo up
mkdir "$base/packages"
# All but debug symbols, which want exactly their package.
for deb in "$out"/*.deb; do case "$deb" in *-dbgsym_*) ;; *) cp "$deb" "$base/packages/" ;; esac; done
# What Debian does not start in such a folder: a policy that says so, as its own tools write it.
printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d"
chmod 755 "$base/usr/sbin/policy-rc.d"

in_it() { chroot "$base" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive "$@"; }
say() { echo "packages: $*"; }
fail() { echo "packages: FAILED: $*" >&2; exit 1; }
# Whether something becomes true within ten seconds.
soon() {
    for _ in $(seq 100); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    return 1
}

say "the README's commands, as they are typed there"
sed -n '/^<!-- dist\/packages-try.sh types this/,/^```$/p' "$root/README.md" | sed '1,/^```sh$/d; /^```$/d' >"$base/packages/commands"
[ "$(grep -c . "$base/packages/commands")" = 5 ] || fail "the README has not five commands"
in_it sh -ec 'cd /packages; set -x; . ./commands' >"$PLACE/typed" 2>&1 || { cat "$PLACE/typed"; fail "a command of the README"; }
grep -q 'active' "$PLACE/typed" || { cat "$PLACE/typed"; fail "no reservation is active"; }

say "what is installed: users, pages, completions, configuration"
for user in sluice-door sluice-broker; do in_it getent passwd $user >/dev/null || fail "no user $user"; done
in_it getent group sluice-operators >/dev/null || fail "no group sluice-operators"
[ "$(stat -c %s "$base/usr/bin/sluice")" -lt 60000000 ] || fail "the program is not stripped"
for service in agent broker; do in_it sluice $service --check --config /etc/sluice/$service.toml || fail "$service.toml"; done
in_it sh -c "apt-get install --yes --no-install-recommends /packages/*.deb" \
    >"$PLACE/apt" 2>&1 || { tail -20 "$PLACE/apt"; fail "the other packages"; }
in_it python3 -c 'import sluice, sluice.rsvp, sluice.together' || fail "python3-sluice"
in_it python3 -c 'import ctypes; [ctypes.CDLL("lib%s.so.1" % name) for name in ("sluice", "rapi", "scrapi")]' || fail "libsluice1"
in_it python3 -c '
import ctypes
for name, call in ("sluice", "sluice_open"), ("rapi", "rapi_session"), ("scrapi", "scrapi_sender"):
    getattr(ctypes.CDLL("lib%s.so.1" % name), call)' || fail "a function of the libraries"
for page in 1/sluice.1 5/sluice-agent.toml.5 3/rapi_session.3; do
    [ -e "$base/usr/share/man/man$page.gz" ] || fail "no page $page"
done

say "an agent by the configuration as installed, with a thing that is counted"
printf '\n[[resource]]\nname = "licence/solver"\ncapacity = 4\n[store]\nany_filesystem = true\n' >>"$base/etc/sluice/agent.toml"
start() {
    in_it sluice agent --pins /sys/fs/bpf/sluice --config /etc/sluice/agent.toml >>"$PLACE/agent.log" 2>&1 &
    soon in_it sluice status --socket /run/sluice/agent.sock || { cat "$PLACE/agent.log"; fail "the agent does not start"; }
}
stop() { pid=$(cat "$base/var/lib/sluice/agent.lock" 2>/dev/null | tr -dc 0-9); kill "-${1:-TERM}" "$pid"; soon gone "$pid" || fail "the agent does not end"; }
gone() { [ ! -e "/proc/$1" ]; }
start
in_it sluice reserve licence/solver=2 --for 1h || fail "a reservation"

say "a second installation over it: the file that was changed stays, and so does the reservation"
in_it sh -c "dpkg --force-confold --install /packages/sluice_*.deb" >"$PLACE/again" 2>&1 || { cat "$PLACE/again"; fail "installed again"; }
grep -q licence/solver "$base/etc/sluice/agent.toml" || fail "the configuration was replaced"
stop KILL
start
in_it sluice list | grep -q licence/solver || fail "the reservation is gone"

say "a purge while it is in force keeps what was promised, and says so"
in_it dpkg --purge sluice >"$PLACE/purge" 2>&1 || { cat "$PLACE/purge"; fail "purge"; }
grep -q 'is kept: there were reservations' "$PLACE/purge" || { cat "$PLACE/purge"; fail "it does not say that the state is kept"; }
[ -d "$base/var/lib/sluice/book" ] || fail "the book is gone"
[ ! -e "$base/etc/sluice" ] && [ ! -e "$base/usr/bin/sluice" ] || fail "something is left"
stop TERM

say "installed again it is there; cancelled and purged, nothing is left"
in_it sh -c "dpkg --install /packages/sluice_*.deb" >/dev/null 2>&1 || fail "installed once more"
printf '\n[[resource]]\nname = "licence/solver"\ncapacity = 4\n[store]\nany_filesystem = true\n' >>"$base/etc/sluice/agent.toml"
start
in_it sluice list | grep -q licence/solver || fail "the reservation did not outlive the purge"
in_it sluice cancel --last || fail "cancel"
in_it dpkg --purge sluice >"$PLACE/purge" 2>&1 || { cat "$PLACE/purge"; fail "purge"; }
for left in /var/lib/sluice /etc/sluice /usr/bin/sluice /usr/share/doc/sluice; do
    [ ! -e "$base$left" ] || { cat "$PLACE/purge"; fail "$left is left"; }
done
echo "packages: all as it should be"
