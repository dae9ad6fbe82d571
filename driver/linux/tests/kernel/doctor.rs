//! The capability probe against this kernel, and against what another tool says of it.

use crate::bed::bed;
use crate::scratch;
use linux::doctor;
use linux::netlink::tc::TcHandle;
use linux::netlink::tc::qdisc::Discipline;

#[test]
fn what_the_doctor_finds_is_what_the_kernel_does() {
    scratch::in_netns(|| {
        let report = doctor::examine();
        for finding in &report.findings {
            let mark = if finding.there { "yes" } else { "no " };
            println!("{:<13} {:<20} {mark} {} [{}]", finding.area, finding.name, finding.detail, finding.instead);
        }
        assert_eq!(report.can_reserve(), report.has("htb") && report.has("flow program"));
        assert!(report.has("network namespaces") && report.has("CAP_NET_ADMIN"), "this test runs as root");
        // The other way to know: the kernel's own list of what it was built with, where it shows it.
        if let Ok(symbols) = std::fs::read_to_string("/proc/kallsyms") {
            for (name, symbol) in [("htb", "htb_init"), ("hfsc", "hfsc_init_qdisc"), ("netem", "netem_init")] {
                assert_eq!(
                    report.has(name),
                    symbols.lines().any(|line| line.split_whitespace().nth(2) == Some(symbol)),
                    "{name}"
                );
            }
        }
        let mut all: Vec<&str> = report.findings.iter().map(|finding| finding.name).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "names are unique");
        assert!(report.findings.iter().all(|finding| finding.there || !finding.detail.is_empty()), "no without a why");
    });
}

#[test]
fn what_is_in_the_way_is_warned_of() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let on = |warnings: &[doctor::Warning], word: &str| {
            warnings.iter().any(|warning| warning.interface == "near" && warning.text.contains(word))
        };
        let fresh = doctor::warnings().expect("warnings");
        assert!(on(&fresh, "segmentation"), "a veth has offloads: {fresh:?}");
        assert!(!on(&fresh, "root qdisc"));
        linux::offload::segmentation_off(&mut bed.socket, "near", bed.oif).expect("off");
        assert_eq!(doctor::warnings(), Ok(vec![]));
        let mut plane = bed.open();
        plane.apply(&[bed.link()]).expect("ours");
        assert_eq!(doctor::warnings(), Ok(vec![]), "our own root is in nobody's way");
        plane.apply(&[::traffic::plan::PlanOp::DropLink { oif: bed.oif }]).expect("goes");
        bed.socket
            .add_qdisc(bed.oif, TcHandle::new(1, 0), TcHandle::ROOT, &Discipline::Pfifo { limit: 7 })
            .expect("theirs");
        assert!(on(&doctor::warnings().expect("warnings"), "root qdisc"));
    });
}

/// What is said of each interface is what happens there.
#[test]
fn where_boomerangs_programs_can_hang_is_said_of_each_interface() {
    scratch::in_netns(|| {
        let bed = bed();
        let paths = doctor::examine().echo_paths;
        let near = paths.iter().find(|path| path.interface == "near").expect("every interface but the loopback");
        assert!(paths.iter().all(|path| path.interface != "lo"));
        let state = scratch::StateDir::new();
        let path = linux::boomerang::FastPath::open(state.path(), 64, [1, 2]).expect("the programs load");
        let native = path.attach(bed.oif, linux::boomerang::Hanging::Native).is_ok();
        assert_eq!((near.xdp_word(), near.auto()), if native { ("native", "driver") } else { ("generic", "ingress") });
        path.attach(bed.oif, linux::boomerang::Hanging::Ingress).expect("TCX, as was said");
        assert!(near.tcx && near.says().contains("TCX"));
    });
}
