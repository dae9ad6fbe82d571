//! `sluice doctor`: the features of this kernel, and the substitutes for missing ones.

mod disk;

use crate::args::DoctorArgs;
use crate::complain::Complaint;
use agent_service::{AgentConfig, standing};
use linux::doctor::{self, DoctorFinding, DoctorReport, Warning};
use rpc::table::{Align, TextTable};
use std::path::Path;
use std::process::ExitCode;

/// Tries everything, prints it; exit status 1 if nothing can be reserved on this machine.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Complaint> {
    if let Some(disk) = &args.disk {
        return disk::run(disk, args);
    }
    let mut report = doctor::examine();
    report.warnings.extend(undeclared(&args.config));
    if args.json {
        println!("{}", as_json(&report));
    } else {
        print(&report);
    }
    Ok(if report.can_reserve() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Interfaces of the agent's file without a role. A file that cannot be read is a warning too.
fn undeclared(file: &Path) -> Vec<Warning> {
    if !file.exists() {
        return Vec::new();
    }
    let warning = |interface: &str, text: String| Warning { interface: interface.to_owned(), text };
    match AgentConfig::load(file) {
        Ok(config) => standing::undeclared_of(&config).map(|(name, text)| warning(name, text)).collect(),
        Err(mistake) => vec![warning("the agent's file", mistake.to_string())],
    }
}

fn as_json(report: &DoctorReport) -> serde_json::Value {
    let finding = |f: &DoctorFinding| {
        serde_json::json!({
            "area": f.area, "name": f.name, "there": f.there, "used_for": f.used_for, "instead": f.instead, "detail": f.detail,
        })
    };
    let path = |path: &doctor::EchoPath| {
        serde_json::json!({
            "interface": path.interface, "xdp": path.xdp_word(), "tcx": path.tcx, "auto": path.auto(),
            "takes_redirected": path.xdp.map(|features| features.takes_redirected()),
        })
    };
    let warnings: Vec<_> =
        report.warnings.iter().map(|w| serde_json::json!({ "interface": w.interface, "text": w.text })).collect();
    serde_json::json!({
        "kernel": report.kernel,
        "can_reserve": report.can_reserve(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "warnings": warnings,
        "boomerang": report.echo_paths.iter().map(path).collect::<Vec<_>>(),
    })
}

fn print(report: &DoctorReport) {
    println!("kernel {}\n", report.kernel);
    let head = [("", Align::Left), ("what", Align::Left), ("is", Align::Left), ("used for; or instead", Align::Left)];
    let mut table = TextTable::new(&head);
    let mut area = "";
    for finding in &report.findings {
        let first = if finding.area == area { "" } else { finding.area };
        area = finding.area;
        let is = match (finding.there, doctor::NEEDED.contains(&finding.name)) {
            (true, _) => "there",
            (false, true) => "missing, and needed",
            (false, false) => "missing",
        };
        let mut words = if finding.there { finding.used_for } else { finding.instead }.to_string();
        // That a kernel has no such thing is what "missing" says.
        if !finding.detail.is_empty() && !finding.detail.ends_with("kind is unknown") {
            words += &format!(" ({})", finding.detail);
        }
        table.row([first.to_string(), finding.name.to_string(), is.to_string(), words]);
    }
    print!("{table}");
    if !report.echo_paths.is_empty() {
        println!("\nBoomerang's fast path ([boomerang] fast_path = \"auto\") would hang here");
        let mut table = TextTable::new(&[("interface", Align::Left), ("how", Align::Left)]);
        for path in &report.echo_paths {
            table.row([path.interface.clone(), path.says().to_owned()]);
        }
        print!("{table}");
    }
    for warning in &report.warnings {
        println!("\nwarning: {}: {}", warning.interface, warning.text);
    }
    let verdict = if report.can_reserve() {
        "reservations can be made and enforced on this machine"
    } else {
        "reservations cannot be enforced on this machine: see what is missing above; the simulator works all the same"
    };
    println!("\n{verdict}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_nobody_declared_are_named() {
        let file = std::env::temp_dir().join(format!("sluice-doctor-{}.toml", std::process::id()));
        let interface = |name: &str, more: &str| {
            format!("[[interface]]\nname = \"{name}\"\nauth = \"none\"\nrate = \"10mbit\"\n{more}")
        };
        std::fs::write(&file, interface("eth1", "") + &interface("eth2", "role = \"core\"\n")).unwrap();
        let found = undeclared(&file);
        std::fs::write(&file, "colour = \"red\"\n").unwrap();
        let wrong = undeclared(&file);
        std::fs::remove_file(&file).unwrap();
        assert!(undeclared(&file).is_empty());
        assert_eq!(found.iter().map(|warning| &*warning.interface).collect::<Vec<_>>(), ["eth1"]);
        assert!(found[0].text.contains("taken for an edge"), "{}", found[0].text);
        assert!(wrong.len() == 1 && wrong[0].text.contains(":1: unknown field `colour`"), "{}", wrong[0].text);
    }
}
