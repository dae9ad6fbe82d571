#!/bin/sh
# The package under a real systemd: start, kill -9, callers over TLS, an upgrade with 1,000 reservations in force and packets of reserved
# flows all the while, the broker with its own user, start at boot, a clean stop, a purge.
# Usage: dist/packages-boot.sh FOLDER-OF-PACKAGES [container | emulated] (root; no network)
# container: one made of Debian's own packages, on this machine's kernel (systemd-nspawn). emulated: a machine with Debian's kernel and
# cgroup v2 (dist/emulated.sh), many times slower.
set -eu

out=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
kind=${2:-container}
[ "$(id -u)" = 0 ] || { echo "SKIPPED: a $kind machine needs root"; exit 0; }

if [ "${SLUICE_TRYING:-}" != yes ]; then
    case "$kind" in
    container) command -v systemd-nspawn >/dev/null || { echo "SKIPPED: systemd-nspawn is not here: apt install systemd-container"; exit 0; } ;;
    emulated)
        status=0
        "$root/dist/emulated.sh" image || status=$?
        [ $status != 3 ] || { echo "SKIPPED: the package in an emulated machine: there is none (above)"; exit 0; }
        [ $status = 0 ] || exit $status
        ;;
    *) echo "packages: $kind is not container or emulated" >&2; exit 2 ;;
    esac
    place=$(mktemp -d /tmp/sluice-boot.XXXXXX)
    trap 'rm -rf --one-file-system "$place"' EXIT
    SLUICE_TRYING=yes PLACE=$place unshare --mount --pid --ipc --fork --kill-child "$0" "$out" "$kind" &
    inner=$!
    # With it goes the namespace, and with that all that runs there.
    trap 'kill -KILL $inner; wait $inner || true; exit 130' INT TERM
    wait $inner
    exit
fi

mount --make-rprivate /
mount -t proc proc /proc
mkdir -p "$PLACE/files/packages"
cp "$out"/sluice_*.deb "$out"/python3-sluice_*.deb "$root/dist/packages-flows.py" "$PLACE/files/packages/"

say() { echo "packages: $*"; }
fail() {
    echo "packages: FAILED: $*" >&2
    in_it journalctl --no-pager --lines=40 --unit=sluice-agent --unit=sluice-broker >&2 || true
    exit 1
}
# Whether something becomes true in the time that a machine of this kind may take for it.
soon() {
    end=$(($(date +%s) + patience))
    while [ "$(date +%s)" -lt "$end" ]; do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    return 1
}
case "$kind" in
container)
    patience=20
    base=$PLACE/debian
    mkdir "$base"
    mount -t tmpfs -o size=1500m tmpfs "$base"
    tar -C "$base" -xf "$out/base.tar"
    cp -a "$PLACE/files/." "$base/"
    # State in memory is enough for a machine that ends with this script.
    store='[store]
any_filesystem = true'
    in_it() { nsenter --target "$init" --all env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
    # A child of systemd-nspawn that only prepares is not yet the machine.
    up() {
        init=$(pgrep -P "$spawned" | head -n 1)
        case "$(in_it systemctl is-system-running --wait)" in running | degraded) ;; *) return 1 ;; esac
    }
    # Its own network, and the bpffs that systemd mounts on a machine.
    boot() {
        umount /sys/fs/bpf 2>/dev/null || true
        mount -t bpf bpf /sys/fs/bpf
        systemd-nspawn --quiet --register=no --keep-unit --directory="$base" --boot --private-network --capability=all --link-journal=no \
            --bind=/sys/fs/bpf --system-call-filter="bpf perf_event_open" --resolv-conf=off --timezone=off --console=read-only \
            systemd.unified_cgroup_hierarchy=0 </dev/null >"$PLACE/console" 2>&1 &
        spawned=$!
        soon up || { cat "$PLACE/console"; fail "it does not boot"; }
    }
    poweroff() {
        in_it systemctl poweroff >/dev/null 2>&1 || true
        wait "$spawned" || true
    }
    ;;
emulated)
    patience=300
    tar -C "$PLACE/files" -cf "$PLACE/files.tar" .
    store=
    in_it() { "$root/dist/emulated.sh" in "$PLACE" "$@"; }
    boot() { "$root/dist/emulated.sh" boot "$PLACE"; }
    poweroff() { "$root/dist/emulated.sh" off "$PLACE"; }
    ;;
esac
ready() { in_it systemctl --quiet is-active "$1" && in_it sluice status --socket /run/sluice/agent.sock; }
main_of() { in_it systemctl show --property=MainPID --value "$1"; }
changed() { now=$(main_of sluice-agent) && [ "$now" != "$1" ] && [ "$now" != 0 ] && ready sluice-agent; }
booked() { [ "$(in_it sluice list --json --socket /run/sluice/agent.sock | grep -o '"handle"' | wc -l)" -ge 1000 ]; }
# The agent as a caller from another machine meets it.
from_afar() {
    what=$1
    shift
    in_it sluice "$what" "$@" --agent tls://192.0.2.1:4711 --ca /etc/sluice/trust/ca.pem \
        --certificate /etc/sluice/trust/requester-alice.pem --certificate-key /etc/sluice/trust/requester-alice.key
}

say "a machine of Debian's own packages boots; ours is installed"
boot
# What a machine has before its services start: one link, whose far end answers nobody.
in_it sh -ec 'cat >/etc/systemd/system/machine.service <<END
[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec "ip link set lo up; ip link add eth0 type veth peer name far; ip address add 192.0.2.1/24 dev eth0; ip link set eth0 up; ip link set far up; ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent; echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/far/disable_ipv6"
[Install]
WantedBy=sysinit.target
END
systemctl --quiet enable --now machine.service' || fail "no link"
in_it sh -c "dpkg --install /packages/*.deb" >"$PLACE/dpkg" 2>&1 || { cat "$PLACE/dpkg"; fail "install"; }
in_it systemctl --quiet is-enabled sluice-agent && fail "the agent is enabled before the administrator says so"
in_it sluice ca --dir /etc/sluice/trust --agent here=192.0.2.1 --requester alice >/dev/null || fail "certificates"
in_it sh -ec 'printf "%s\n" "$1" >>/etc/sluice/agent.toml' sh "$store"'
[[interface]]
name = "eth0"
auth = "none"
rate = "1gbit"
[listen]
address = "192.0.2.1:4711"
ca = "trust/ca.pem"
certificate = "trust/agent-here.pem"
key = "trust/agent-here.key"' || fail "the agent's file"
in_it sh -ec 'sed -i "s/^#policy = /policy = /" /etc/sluice/agent.toml; printf "\n[[rule]]\nname = \"alice\"\nwho = [\"alice\"]\n" >>/etc/sluice/policy.toml' || fail "the policy"
in_it systemctl enable --now sluice-agent >/dev/null 2>&1 || fail "the agent does not start"
soon ready sluice-agent || fail "the agent does not serve"
say "  $(in_it sluice status --socket /run/sluice/agent.sock | grep -m 1 eth0)"
in_it test -e /sys/fs/bpf/sluice || fail "nothing is pinned"
in_it test -L /var/lib/sluice/bpf || fail "the agent mounted a bpffs of its own"
in_it journalctl --no-pager --unit=sluice-agent | grep -qi 'sluice' || fail "nothing in the journal"

say "callers from other machines: read by a process that is nobody, under the unit's filter of system calls"
soon from_afar list || { from_afar list || true; fail "no answer over TLS"; }
from_afar reserve net/eth0=1mbit --for 1h --label from-afar || fail "a reservation over TLS"
in_it sluice list --socket /run/sluice/agent.sock --label from-afar | grep -q eth0 || fail "the agent has nothing of it"
from_afar list --label from-afar | grep -q eth0 || fail "it is not listed over TLS"
in_it ps -e -o user:20=,comm= | grep -q '^sluice-door *sluice-front' || { in_it ps -e -o user:20=,comm= | grep sluice; fail "the front is somebody else"; }

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
booked || fail "reservations are gone"
soon from_afar list --label from-afar || fail "no answer over TLS any more"

say "the broker, with a user of its own, books for whom it asks"
in_it systemctl enable --now sluice-broker >/dev/null 2>&1 || fail "the broker does not start"
soon in_it sluice list --broker unix:/run/sluice/broker.sock || fail "the broker does not answer"
[ "$(in_it ps -o user:20= -p "$(main_of sluice-broker)")" = sluice-broker ] || fail "the broker is somebody else"
in_it sluice reserve --broker unix:/run/sluice/broker.sock here/net/eth0=1mbit --for 1h --label by-broker || fail "a reservation through the broker"
in_it sluice list --socket /run/sluice/agent.sock --label by-broker | grep -q 'eth0' || fail "the agent has nothing of it"

say "the machine starts anew: agent and broker come with it, and what was promised is in force"
poweroff
boot
soon ready sluice-agent || fail "the agent did not start with the machine"
soon in_it sluice list --broker unix:/run/sluice/broker.sock || fail "the broker did not start with the machine"
booked || fail "reservations are gone"
soon from_afar list || fail "callers from other machines get no answer"

say "a stop in good order, and a purge that keeps what was promised"
in_it systemctl stop sluice-broker sluice-agent || fail "stop"
for unit in sluice-agent sluice-broker; do
    [ "$(in_it systemctl show --property=Result --value $unit)" = success ] || fail "$unit did not end in good order"
done
in_it tc qdisc show dev eth0 2>/dev/null | grep -q '5c1c:' && fail "the interface was not given back"
in_it systemctl start sluice-agent && soon ready sluice-agent || fail "started again"
in_it dpkg --purge sluice >"$PLACE/dpkg" 2>&1 || { cat "$PLACE/dpkg"; fail "purge"; }
grep -q 'is kept: there were reservations' "$PLACE/dpkg" || { cat "$PLACE/dpkg"; fail "the state is not kept"; }
in_it systemctl --quiet is-active sluice-agent && fail "the agent runs on"
poweroff
echo "packages: all as it should be"
