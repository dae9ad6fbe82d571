#!/bin/sh
# The package under a real systemd, in a container made of Debian's own packages: start, kill -9, an upgrade with 1,000 reservations in
# force and packets of reserved flows all the while, the broker with its own user, start at boot, a clean stop, a purge.
# Usage: dist/packages-boot.sh FOLDER-OF-PACKAGES (root, systemd-nspawn; no network)
set -eu

out=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "SKIPPED: a container needs root"; exit 0; }
command -v systemd-nspawn >/dev/null || { echo "SKIPPED: systemd-nspawn is not here: apt install systemd-container"; exit 0; }

if [ "${SLUICE_TRYING:-}" != yes ]; then
    place=$(mktemp -d /tmp/sluice-boot.XXXXXX)
    trap 'rm -rf --one-file-system "$place"' EXIT
    SLUICE_TRYING=yes PLACE=$place unshare --mount --pid --ipc --fork --kill-child "$0" "$out"
    exit
fi

mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o size=1500m tmpfs "$PLACE"
base=$PLACE/debian
mkdir "$base"
tar -C "$base" -xf "$out/base.tar"
mkdir "$base/packages"
cp "$out"/sluice_*.deb "$out"/python3-sluice_*.deb "$root/dist/packages-flows.py" "$base/packages/"

say() { echo "packages: $*"; }
fail() {
    echo "packages: FAILED: $*" >&2
    in_it journalctl --no-pager --lines=40 --unit=sluice-agent --unit=sluice-broker >&2 || true
    exit 1
}
soon() {
    for _ in $(seq 200); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    return 1
}
in_it() { nsenter --target "$init" --all env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
# A machine: its own network with one link, whose far end answers nobody, and the bpffs that systemd mounts on a machine.
boot() {
    umount /sys/fs/bpf 2>/dev/null || true
    mount -t bpf bpf /sys/fs/bpf
    systemd-nspawn --quiet --register=no --keep-unit --directory="$base" --boot --private-network --capability=all --link-journal=no \
        --bind=/sys/fs/bpf --system-call-filter="bpf perf_event_open" --resolv-conf=off --timezone=off --console=read-only \
        systemd.unified_cgroup_hierarchy=0 </dev/null >"$PLACE/console" 2>&1 &
    spawned=$!
    soon pgrep -P "$spawned" || { cat "$PLACE/console"; fail "no container"; }
    init=$(pgrep -P "$spawned" | head -n 1)
    soon in_it systemctl is-system-running --wait || in_it systemctl is-system-running | grep -q degraded || { cat "$PLACE/console"; fail "it does not boot"; }
}
ready() { in_it systemctl --quiet is-active "$1" && in_it sluice status --socket /run/sluice/agent.sock; }
main_of() { in_it systemctl show --property=MainPID --value "$1"; }
changed() { now=$(main_of sluice-agent) && [ "$now" != "$1" ] && [ "$now" != 0 ] && ready sluice-agent; }

# What a machine has before its services start.
cat >"$base/etc/systemd/system/machine.service" <<'END'
[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'ip link set lo up; ip link add eth0 type veth peer name far; ip address add 192.0.2.1/24 dev eth0; ip link set eth0 up; ip link set far up; ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent; echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/far/disable_ipv6'
[Install]
WantedBy=sysinit.target
END
mkdir -p "$base/etc/systemd/system/sysinit.target.wants"
ln -s ../machine.service "$base/etc/systemd/system/sysinit.target.wants/machine.service"

say "a machine of Debian's own packages boots; ours is installed"
boot
in_it sh -c "dpkg --install /packages/*.deb" >"$PLACE/dpkg" 2>&1 || { cat "$PLACE/dpkg"; fail "install"; }
in_it systemctl --quiet is-enabled sluice-agent && fail "the agent is enabled before the administrator says so"
cat >>"$base/etc/sluice/agent.toml" <<'END'

[store]
any_filesystem = true
[[interface]]
name = "eth0"
auth = "none"
rate = "1gbit"
END
in_it systemctl enable --now sluice-agent >/dev/null 2>&1 || fail "the agent does not start"
soon ready sluice-agent || fail "the agent does not serve"
in_it test -e /sys/fs/bpf/sluice || fail "nothing is pinned"
in_it test -L /var/lib/sluice/bpf || fail "the agent mounted a bpffs of its own"
in_it journalctl --no-pager --unit=sluice-agent | grep -qi 'sluice' || fail "nothing in the journal"

say "1,000 reservations, and packets of ten of them: the agent is killed"
in_it python3 /packages/packages-flows.py reserve 1000 || fail "reservations"
in_it python3 /packages/packages-flows.py send 10 /run/flows >/dev/null &
soon in_it test -e /run/flows.begun || fail "no packets"
before=$(main_of sluice-agent)
in_it systemctl kill --signal=KILL --kill-whom=main sluice-agent
soon changed "$before" || fail "nobody came back"

say "the same package again, as an upgrade: another agent takes over"
before=$(main_of sluice-agent)
in_it sh -c "dpkg --install /packages/sluice_*.deb" >"$PLACE/dpkg" 2>&1 || { cat "$PLACE/dpkg"; fail "upgrade"; }
soon changed "$before" || { cat "$PLACE/dpkg"; fail "the upgrade left the old agent"; }
in_it touch /run/flows.end
soon in_it test -e /run/flows.counted || fail "no counts"
say "  $(in_it cat /run/flows.counted)"
in_it grep -q '^0 of [1-9][0-9]* packets' /run/flows.counted || fail "packets lost their class"
[ "$(in_it sluice list --json --socket /run/sluice/agent.sock | grep -o '"handle"' | wc -l)" -ge 1000 ] || fail "reservations are gone"

say "the broker, with a user of its own, books for whom it asks"
in_it systemctl enable --now sluice-broker >/dev/null 2>&1 || fail "the broker does not start"
soon in_it sluice list --broker unix:/run/sluice/broker.sock || fail "the broker does not answer"
[ "$(in_it ps -o user= -p "$(main_of sluice-broker)")" = sluice-+ ] || in_it ps -o user:20= -p "$(main_of sluice-broker)" | grep -qx 'sluice-broker' || fail "the broker is somebody else"
in_it sluice reserve --broker unix:/run/sluice/broker.sock here/net/eth0=1mbit --for 1h --label by-broker || fail "a reservation through the broker"
in_it sluice list --socket /run/sluice/agent.sock --label by-broker | grep -q 'eth0' || fail "the agent has nothing of it"

say "the machine starts anew: agent and broker come with it, and what was promised is in force"
in_it systemctl poweroff >/dev/null 2>&1 || true
wait "$spawned" || true
boot
soon ready sluice-agent || fail "the agent did not start with the machine"
soon in_it sluice list --broker unix:/run/sluice/broker.sock || fail "the broker did not start with the machine"
[ "$(in_it sluice list --json --socket /run/sluice/agent.sock | grep -o '"handle"' | wc -l)" -ge 1000 ] || fail "reservations are gone"

say "a stop in good order, and a purge that keeps what was promised"
in_it systemctl stop sluice-broker sluice-agent || fail "stop"
for unit in sluice-agent sluice-broker; do
    [ "$(in_it systemctl show --property=Result --value $unit)" = success ] || fail "$unit did not end in good order"
done
in_it tc qdisc show dev eth0 2>/dev/null | grep -q htb && fail "the interface was not given back"
in_it systemctl start sluice-agent && soon ready sluice-agent || fail "started again"
in_it dpkg --purge sluice >"$PLACE/dpkg" 2>&1 || { cat "$PLACE/dpkg"; fail "purge"; }
grep -q 'is kept: there were reservations' "$PLACE/dpkg" || { cat "$PLACE/dpkg"; fail "the state is not kept"; }
in_it systemctl --quiet is-active sluice-agent && fail "the agent runs on"
in_it systemctl poweroff >/dev/null 2>&1 || true
wait "$spawned" || true
echo "packages: all as it should be"
