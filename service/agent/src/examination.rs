//! The features that this machine has and lacks, as `sluice doctor` finds them: examined by a thread of its own, so that
//! the agent's loop does not wait for it, and again when the answer is old.

use crate::config::AgentConfig;
use crate::standing;
use documents::overview::{DoctorDoc, DoctorWarning, FindingRow};
use linux::doctor::{self, DoctorReport};
use std::sync::{Arc, Mutex, PoisonError};
use terms::{Span, Time};

/// The age at which the machine is examined again.
const OLD: Span = Span::from_secs(600);

/// The newest findings.
#[derive(Debug, Default)]
pub(crate) struct Examination {
    found: Arc<Mutex<Option<DoctorDoc>>>,
    /// When the last examination began.
    began: Option<Time>,
}

impl Examination {
    /// The newest findings; with an empty kernel while there are none. Begins an examination if they are old.
    pub(crate) fn answer(&mut self, config: &AgentConfig, now: Time) -> DoctorDoc {
        if self.began.is_none_or(|began| now.since(began) >= OLD) {
            self.began = Some(now);
            let found = self.found.clone();
            let undeclared = standing::undeclared_of(config);
            let undeclared: Vec<DoctorWarning> =
                undeclared.map(|(of, text)| DoctorWarning { of: of.to_owned(), text }).collect();
            let examine = move || {
                let mut doc = document(&doctor::examine());
                doc.warnings.extend(undeclared);
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(doc);
            };
            // Without a thread there are no findings; it is tried again when they would be old.
            let _ = std::thread::Builder::new().name("doctor".to_owned()).spawn(examine);
        }
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }
}

fn document(report: &DoctorReport) -> DoctorDoc {
    let findings = report.findings.iter().map(|finding| FindingRow {
        area: finding.area.to_owned(),
        name: finding.name.to_owned(),
        there: finding.there,
        text: if finding.there { finding.used_for } else { finding.instead }.to_owned(),
    });
    let warnings = report
        .warnings
        .iter()
        .map(|warning| DoctorWarning { of: warning.interface.clone(), text: warning.text.clone() });
    DoctorDoc {
        kernel: report.kernel.clone(),
        can_reserve: report.can_reserve(),
        findings: findings.collect(),
        warnings: warnings.collect(),
    }
}
