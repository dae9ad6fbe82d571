//! Run times and waiting times of threads: `/proc/PID/task/TID/schedstat`
//! (Documentation/scheduler/sched-stats).

use super::tune::RunTimes;
use std::collections::BTreeMap;
use std::fs;

/// The most threads of a group that are measured one by one.
const MOST_THREADS: usize = 512;

/// The ids of the threads of a process; none if it has ended.
pub fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut all: Vec<u32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

/// The run time and the waiting time of a thread since its start.
pub fn thread_times(pid: u32, tid: u32) -> Option<RunTimes> {
    parse(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?)
}

fn parse(text: &str) -> Option<RunTimes> {
    let mut words = text.split_ascii_whitespace();
    Some(RunTimes { ran: words.next()?.parse().ok()?, waited: words.next()?.parse().ok()? })
}

/// Sums over threads that come and go; an ended thread counts with its last seen times.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    live: BTreeMap<(u32, u32), RunTimes>,
    ended: RunTimes,
}

impl Sum {
    /// Measures the threads of these processes and returns the sum, including ended threads.
    pub fn look(&mut self, pids: &[u32]) -> RunTimes {
        let all = pids.iter().flat_map(|&pid| threads(pid).into_iter().map(move |tid| (pid, tid)));
        let seen: BTreeMap<(u32, u32), RunTimes> =
            all.take(MOST_THREADS).filter_map(|at| Some((at, thread_times(at.0, at.1)?))).collect();
        for (at, times) in &self.live {
            if !seen.contains_key(at) {
                self.ended.ran += times.ran;
                self.ended.waited += times.waited;
            }
        }
        self.live = seen;
        let add =
            |sum: RunTimes, times: &RunTimes| RunTimes { ran: sum.ran + times.ran, waited: sum.waited + times.waited };
        self.live.values().fold(self.ended, add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ended_still_counts() {
        let pid = std::process::id();
        let mut sum = Sum::default();
        let before = sum.look(&[pid]);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            let until = std::time::Instant::now() + std::time::Duration::from_millis(5);
            while std::time::Instant::now() < until {}
            let _ = ended.recv();
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        let during = sum.look(&[pid]);
        drop(end);
        busy.join().unwrap();
        let after = sum.look(&[pid]);
        assert!(during.ran > before.ran && after.ran >= during.ran, "{before:?} {during:?} {after:?}");
        assert_eq!(sum.look(&[]).ran, after.ran, "all have ended");
        assert_eq!(parse("1 2"), Some(RunTimes { ran: 1, waited: 2 }));
        assert_eq!(parse("1"), None);
    }
}
