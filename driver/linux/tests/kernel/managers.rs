//! Network managers that rewrite what is there (FAULTS.md K13), and interfaces that are moved away (K14).

use crate::bed::{bed, plan_of};
use crate::scratch;
use linux::bpf::Hook;
use linux::netlink::tc::TcHandle;
use linux::netlink::tc::qdisc::Discipline;
use linux::plane::PlaneDrift;
use std::process::{Child, Command, Stdio};
use traffic::plan::{ClassId, Plan, PlanOp};

fn tc(arguments: &str) {
    let output = Command::new("tc").args(arguments.split(' ')).output().expect("tc");
    assert!(output.status.success(), "tc {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// K13, as systemd-networkd and NetworkManager do it when they configure an interface anew: they replace the root, or flush
/// it, or flush what hangs at clsact. A root of theirs is told and not fought; what is missing is mended.
#[test]
fn k13_a_manager_that_rewrites_is_told_and_outlived() {
    for hook in [Hook::Best, Hook::Clsact] {
        scratch::in_netns(move || {
            let mut bed = bed();
            let mut plane = bed.open_by(hook);
            let mut ops = bed.base(3_300);
            ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
            plane.apply(&ops).expect("fits");
            let told = bed.shown();
            for round in 0..3 {
                tc("qdisc del dev near root");
                assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Mended(bed.oif)]), "{hook:?} {round}: flushed");
                assert_eq!(bed.shown(), told);
                if hook == Hook::Clsact {
                    tc("qdisc del dev near clsact");
                    tc("qdisc add dev near clsact");
                    assert_eq!(
                        plane.reconcile(),
                        Ok(vec![PlaneDrift::Mended(bed.oif)]),
                        "{round}: the program hangs again"
                    );
                    assert_eq!(bed.shown(), told);
                }
                tc("qdisc replace dev near root handle 9: tbf rate 5mbit burst 10kb limit 30kb");
                assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Foreign(bed.oif)]), "{hook:?} {round}: theirs");
                let root = bed.socket.root_qdisc(bed.oif).expect("answers").expect("theirs");
                assert_eq!(root.handle, TcHandle::new(9, 0), "and it is left alone");
                assert!(!matches!(root.discipline, Discipline::Htb { .. }));
                assert!(
                    plane.apply(&[bed.flow(2, ClassId::CONTROLLED_LOAD, 10)]).is_err(),
                    "nothing is promised there"
                );
                // They take it away again: what was told is made again from nothing.
                tc("qdisc del dev near root");
                assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Mended(bed.oif)]), "{hook:?} {round}");
                assert_eq!(bed.shown(), told);
            }
            assert_eq!(plane.read(), Ok(plan_of(&ops)));
        });
    }
}

/// Ends with the test.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// K14: an interface that is moved to another network namespace is gone here, with everything of ours on it. (A VRF moves no
/// interface: it stays in its namespace under its number, and this kernel has no such device to show it with.)
#[test]
fn k14_an_interface_that_is_moved_away_is_gone() {
    scratch::in_netns(|| {
        let bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        plane.apply(&ops).expect("fits");
        let mut other = Command::new("unshare");
        let child =
            other.args(["-n", "sh", "-c", "echo; exec sleep 60"]).stdout(Stdio::piped()).spawn().expect("unshare");
        let mut holder = Holder(child);
        let mut ready = [0];
        let out = holder.0.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(out, &mut ready).expect("its namespace is there");
        let pid = holder.0.id().to_string();
        let moved = Command::new("ip").args(["link", "set", "near", "netns", &pid]).status().expect("ip");
        assert!(moved.success());
        assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Gone(bed.oif)]));
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("forgotten");
        assert_eq!(plane.read(), Ok(Plan::default()));
        let there = Command::new("nsenter").args(["-t", &pid, "-n", "tc", "qdisc", "show", "dev", "near"]).output();
        let there = String::from_utf8(there.expect("nsenter").stdout).expect("text");
        assert!(!there.contains("5c1c"), "nothing of ours came along: {there}");
    });
}
