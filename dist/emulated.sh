#!/bin/sh
# An emulated machine: Debian's own kernel, systemd and packages under QEMU, whatever kernel this machine has. It needs no KVM, and is 10 to
# 30 times slower than this machine: no test may judge times in it.
# Usage: dist/emulated.sh image | boot FOLDER | in FOLDER COMMAND [ARGUMENT ...] | off FOLDER
# image: makes target/packages/emulated.* once, of packages.sh base and Debian's kernel (root, network).
# boot: starts the machine whose disk is FOLDER/disk, and comes back when systemd has started everything; FOLDER/pid is QEMU's. Where there
# is no disk it is a copy of the image, and what is in FOLDER/files.tar, if that is there, is laid over its root.
# in: runs a command there, whose output and status are its own. off: powers the machine down in good order.
# A status of 3 says that something is missing here, and SKIPPED says what.
set -eu

cd "$(dirname "$0")/.."
out=$PWD/target/packages
image=$out/emulated
# What there is beside packages.sh base. tar lays out files, ip makes links; the rest is what a kernel of Debian's wants to start.
packages="linux-image-cloud-amd64 udev kmod initramfs-tools"
# How long one start may take, in seconds. 2 processors that also build take 50 to 80.
START=${SLUICE_EMULATED_START:-300}

say() { echo "emulated: $*"; }
fail() { echo "emulated: FAILED: $*" >&2; exit 1; }
missing() { echo "SKIPPED: $*" >&2; exit 3; }
talk() { python3 dist/emulated-talk.py run "$@"; }

make_image() {
    [ "$(id -u)" = 0 ] || missing "an image of a machine needs root to be made"
    for program in qemu-system-x86_64 debootstrap mkfs.ext4 python3; do
        command -v $program >/dev/null || missing "$program is not here: dist/setup.sh emulated installs it"
    done
    [ -e "$image.disk" ] && [ "$image.disk" -nt dist/emulated.sh ] && [ "$image.disk" -nt dist/emulated-talk.py ] && return
    dist/packages.sh base || exit 3
    # What is mounted for Debian's tools goes with the namespace, and so do processes that they leave.
    rm -rf --one-file-system "$image.tree"
    trap 'rm -rf --one-file-system "$image.tree" "$image.new"' EXIT
    trap 'exit 130' INT TERM
    SLUICE_IMAGE=yes unshare --mount --pid --fork --kill-child "$PWD/dist/emulated.sh" tree || exit
    mkfs.ext4 -q -F -L emulated -E lazy_itable_init=1 -d "$image.tree" "$image.new" 6G >/dev/null
    cp "$image.tree"/boot/vmlinuz-* "$image.kernel"
    cp "$image.tree"/boot/initrd.img-* "$image.initrd"
    mv "$image.new" "$image.disk"
}

# The folder that becomes the image.
make_tree() {
    mount --make-rprivate /
    tree=$image.tree
    mkdir "$tree"
    tar -C "$tree" -xf "$out/base.tar"
    mount -t proc proc "$tree/proc"
    mount -t sysfs sys "$tree/sys"
    mount --rbind /dev "$tree/dev"
    # Names as this machine finds them, and for the time of this only; no service starts in a folder.
    : >>"$tree/etc/resolv.conf"
    mount --bind /etc/resolv.conf "$tree/etc/resolv.conf"
    printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
    chmod 755 "$tree/usr/sbin/policy-rc.d"
    # Only the disk is needed to find the rest.
    mkdir -p "$tree/etc/initramfs-tools/conf.d"
    echo MODULES=list >"$tree/etc/initramfs-tools/conf.d/emulated"
    printf 'virtio_pci\nvirtio_blk\n' >"$tree/etc/initramfs-tools/modules"
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
    # shellcheck disable=SC2086 # the list is meant to be split
    { chroot "$tree" apt-get update && chroot "$tree" apt-get install --yes --no-install-recommends -o Dpkg::Options::=--force-confold $packages; } \
        >"$image.log" 2>&1 || { tail -5 "$image.log" >&2; missing "Debian's kernel cannot be had (no network?)"; }
    umount "$tree/etc/resolv.conf"
    rm -rf "$tree/usr/sbin/policy-rc.d" "$tree/var/cache/apt"/*.bin "$tree/var/cache/apt/archives"/*.deb "$tree/var/lib/apt/lists"/*
    echo emulated >"$tree/etc/hostname"
    printf '127.0.0.1 localhost emulated\n::1 localhost\n' >"$tree/etc/hosts"
    echo "/dev/vda / ext4 rw 0 1" >"$tree/etc/fstab"
    # What looks for work on its own takes time from what is tried.
    for timer in apt-daily apt-daily-upgrade man-db e2scrub_all fstrim dpkg-db-backup; do
        chroot "$tree" systemctl --quiet disable $timer.timer 2>/dev/null || true
    done
    install -D -m 755 dist/emulated-talk.py "$tree/usr/local/lib/emulated/talk.py"
    cat >"$tree/etc/systemd/system/commands.service" <<'UNIT'
[Unit]
Description=Commands of the machine that emulates this one
After=basic.target
[Service]
ExecStart=/usr/bin/python3 -I /usr/local/lib/emulated/talk.py serve
OOMScoreAdjust=-1000
[Install]
WantedBy=multi-user.target
UNIT
    chroot "$tree" systemctl --quiet enable commands.service
    mountpoint -q "$tree/proc" && umount -R "$tree/proc" "$tree/sys" "$tree/dev"
}

boot() {
    place=$1
    set --
    if [ ! -e "$place/disk" ]; then
        cp --sparse=always "$image.disk" "$place/disk"
        [ ! -e "$place/files.tar" ] || set -- -drive "file=$place/files.tar,if=virtio,format=raw,readonly=on"
    fi
    files=$#
    for port in 0 1 2 3; do
        set -- "$@" -chardev "socket,id=port$port,path=$place/$port,server=on,wait=off" \
            -device "virtserialport,chardev=port$port,name=commands.$port"
    done
    # The host's crash is the end of the disk as well: it need not be safe from it.
    qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -accel tcg,thread=multi -machine pc -cpu max,la57=off \
        -smp 2 -m "${SLUICE_EMULATED_MB:-2048}" -rtc base=utc -serial "file:$place/console" -monitor none -kernel "$image.kernel" -initrd "$image.initrd" \
        -append "root=/dev/vda rw console=ttyS0 loglevel=4 mitigations=off net.ifnames=0 panic=-1" \
        -drive "file=$place/disk,if=virtio,format=raw,cache=unsafe" -device virtio-serial-pci -device virtio-rng-pci "$@" \
        </dev/null >"$place/qemu" 2>&1 &
    machine=$!
    echo $machine >"$place/pid"
    begun=$(date +%s)
    # The watch ends with the start: a machine that has not come by then is none.
    until [ -S "$place/0" ]; do
        kill -0 $machine 2>/dev/null || { cat "$place/qemu" >&2; fail "QEMU does not start"; }
        sleep 0.1
    done
    state=$(timeout "$START" python3 dist/emulated-talk.py run "$place" systemctl is-system-running --wait) || true
    case "$state" in
    running) ;;
    degraded) talk "$place" systemctl --failed --no-pager --no-legend || true ;;
    *)
        tail -60 "$place/console" >&2
        kill -KILL $machine 2>/dev/null || true
        fail "it did not start in $START s ($state): its console is above"
        ;;
    esac
    [ "$files" = 0 ] || talk "$place" tar -C / --keep-directory-symlink -xf /dev/vdb || fail "the files do not get there"
    say "Debian's kernel $(talk "$place" uname -r) and systemd are up after $(($(date +%s) - begun)) s"
}

# Good order takes as long as a start at most.
off() {
    machine=$(cat "$1/pid")
    timeout 60 python3 dist/emulated-talk.py run "$1" systemctl poweroff >/dev/null 2>&1 || true
    for _ in $(seq "$((START * 5))"); do
        # One whose parent has not looked yet has ended all the same.
        case "$(sed 's/.*) //' "/proc/$machine/stat" 2>/dev/null)" in "" | Z*) return 0 ;; esac
        sleep 0.2
    done
    tail -40 "$1/console" >&2
    kill -KILL "$machine" 2>/dev/null || true
    fail "it did not power down in $START s: its console is above"
}

case "${1:-}" in
image) make_image ;;
tree) [ "${SLUICE_IMAGE:-}" = yes ] && make_tree ;;
boot) boot "$2" ;;
in) shift && exec python3 dist/emulated-talk.py run "$@" ;;
off) off "$2" ;;
*)
    echo "emulated: ${1:-nothing} is not image, boot, in or off" >&2
    exit 2
    ;;
esac
