//! Many independent runs on all cores. Results do not depend on the speed of a core, and survive an
//! interruption.
//!
//! Plain threads of the standard library: runs take tenths of seconds and share nothing, so one counter is
//! enough to schedule them, and a work-stealing pool would be a dependency without a use.

use bed::error::Error;
use bed::patience::Patience;
use figures::progress::Steps;
use linux::error::SystemError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The largest number of runs in a sweep: a quarter of an hour at a tenth of a second each. More is a
/// mistake.
pub const MAX_RUNS: usize = 10_000;
/// The longest delay before a signal, or the end, is noticed.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// A sweep: its identity, the file of finished runs, and the progress display.
#[derive(Debug)]
pub struct ExperimentSweep<'a> {
    /// All inputs of the results besides the run's own key. A file of another sweep is not continued.
    pub fingerprint: String,
    /// The file of finished runs; `None`: they are not kept.
    pub kept: Option<PathBuf>,
    /// True to show progress on standard error.
    pub progress: bool,
    /// The means by which the user stops the sweep.
    pub patience: &'a Patience,
    /// The number of threads; `None`: one per core.
    pub threads: Option<usize>,
}

/// The first line of a file of finished runs.
#[derive(Serialize, Deserialize)]
struct Head {
    sweep: String,
}

/// A later line of that file.
#[derive(Serialize, Deserialize)]
struct Kept<R> {
    run: String,
    result: R,
}

/// The error of a run, with the run's key and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunFailed(pub String);

impl ExperimentSweep<'_> {
    /// Plays every run that is not finished yet. `key` identifies a run and must be the same in every sweep
    /// that would repeat it. Results are in the order of `runs`.
    ///
    /// # Errors
    /// There are too many runs; a run fails; the user stops the sweep (finished runs are kept); the file
    /// cannot be written.
    pub fn play<J, R>(
        &self,
        runs: &[J],
        key: impl Fn(&J) -> String,
        play: impl Fn(&J) -> Result<R, RunFailed> + Sync,
    ) -> Result<Vec<R>, Error>
    where
        J: Sync,
        R: Serialize + DeserializeOwned + Send,
    {
        if runs.len() > MAX_RUNS {
            return Err(Error::Void(too_many(runs.len())));
        }
        let keys: Vec<String> = runs.iter().map(key).collect();
        let (mut found, file) = self.open(&keys)?;
        let todo: Vec<usize> = (0..runs.len()).filter(|&n| found[n].is_none()).collect();
        let shared = Mutex::new(Shared { file, steps: Steps::new(runs.len(), self.progress), failed: None });
        if todo.len() < runs.len() {
            lock(&shared).steps.skip(runs.len() - todo.len());
        }
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let threads = self.threads.unwrap_or_else(cores).clamp(1, todo.len().max(1));
        let worker = || {
            let mut mine = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let Some(&n) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                let result = play(&runs[n]).map_err(|why| failed(&keys[n], why));
                match result.and_then(|result| lock(&shared).finished(&keys[n], result)) {
                    Ok(result) => mine.push((n, result)),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        lock(&shared).failed.get_or_insert(error);
                    }
                }
            }
            mine
        };
        let done: Vec<Vec<(usize, R)>> = std::thread::scope(|scope| {
            let others: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            // Signals are this thread's business.
            while !others.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                if let Err(stopped) = self.patience.check() {
                    stop.store(true, Ordering::Relaxed);
                    lock(&shared).failed.get_or_insert(stopped);
                    break;
                }
                std::thread::park_timeout(LOOK);
            }
            let joined = others.into_iter().map(|thread| thread.join());
            joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        if let Some(error) = lock(&shared).failed.take() {
            return Err(error);
        }
        for (n, result) in done.into_iter().flatten() {
            found[n] = Some(result);
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns the finished runs, and the file for further ones.
    #[allow(clippy::type_complexity)]
    fn open<R: Serialize + DeserializeOwned>(&self, keys: &[String]) -> Result<(Vec<Option<R>>, Option<File>), Error> {
        let mut found: Vec<Option<R>> = keys.iter().map(|_| None).collect();
        let Some(path) = &self.kept else { return Ok((found, None)) };
        let identity = identity(&self.fingerprint, program());
        let (whole, earlier) = read::<R>(path, &identity);
        let mut earlier: BTreeMap<String, R> = earlier;
        for (slot, key) in found.iter_mut().zip(keys) {
            *slot = earlier.remove(key);
        }
        let wrong = |error| SystemError::because(format!("write {}", path.display()), error);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(wrong)?;
        }
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(wrong)?;
        file.set_len(whole).map_err(wrong)?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(whole)).map_err(wrong)?;
        if whole == 0 {
            writeln!(file, "{}", line(&Head { sweep: identity })).map_err(wrong)?;
        }
        Ok((found, Some(file)))
    }
}

/// Identifies the sweep and this very program, because a changed model gives other results.
fn identity(sweep: &str, program: u64) -> String {
    format!("{sweep} by {program:016x}")
}

/// Returns a digest of the running program, with all models in it. If it cannot be read, a random number.
fn program() -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
    static DIGEST: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *DIGEST.get_or_init(|| match std::fs::read("/proc/self/exe") {
        Ok(bytes) => BuildHasherDefault::<DefaultHasher>::default().hash_one(&bytes),
        Err(_) => RandomState::new().hash_one(0),
    })
}

/// The state that the threads share.
struct Shared {
    file: Option<File>,
    steps: Steps,
    failed: Option<Error>,
}

impl Shared {
    fn finished<R: Serialize>(&mut self, key: &str, result: R) -> Result<R, Error> {
        self.steps.step();
        let Some(file) = &mut self.file else { return Ok(result) };
        let kept = Kept { run: key.to_string(), result };
        // In one write: a run is in the file as a whole, or torn at its end, which `read` sees.
        let text = line(&kept) + "\n";
        file.write_all(text.as_bytes())
            .map_err(|error| SystemError::because("keep a finished run".to_string(), error))?;
        Ok(kept.result)
    }
}

/// Returns the error message for too many runs.
pub fn too_many(count: usize) -> String {
    format!(
        "a sweep of {count} runs; at most {MAX_RUNS} are allowed: take fewer values or seeds, or split it in several files"
    )
}

/// Reads the complete lines of a file of this sweep. Returns their length in bytes, and the runs in them.
fn read<R: DeserializeOwned>(path: &Path, fingerprint: &str) -> (u64, BTreeMap<String, R>) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut runs = BTreeMap::new();
    let mut whole = 0;
    for text in text.split_inclusive('\n') {
        let Some(content) = text.strip_suffix('\n') else { break };
        if whole == 0 {
            match serde_json::from_str::<Head>(content) {
                Ok(head) if head.sweep == fingerprint => {}
                _ => break,
            }
        } else {
            let Ok(kept) = serde_json::from_str::<Kept<R>>(content) else { break };
            runs.insert(kept.run, kept.result);
        }
        whole += text.len() as u64;
    }
    (whole, runs)
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| unreachable!("results are text and numbers"))
}

fn failed(key: &str, RunFailed(why): RunFailed) -> Error {
    Error::Void(format!("{key}: {why}"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep<'a>(kept: Option<PathBuf>, threads: usize, patience: &'a Patience) -> ExperimentSweep<'a> {
        ExperimentSweep { fingerprint: "test 1".into(), kept, progress: false, patience, threads: Some(threads) }
    }

    #[test]
    fn results_do_not_depend_on_the_threads() {
        let patience = Patience::endless();
        let runs: Vec<u64> = (0..100).collect();
        let play = |run: &u64| {
            std::thread::sleep(std::time::Duration::from_micros(100 - run));
            Ok(run * run)
        };
        let one = sweep(None, 1, &patience).play(&runs, u64::to_string, play).unwrap();
        let many = sweep(None, 7, &patience).play(&runs, u64::to_string, play).unwrap();
        assert_eq!(one, many);
        assert_eq!(one[99], 99 * 99);
    }

    #[test]
    fn an_interrupted_sweep_goes_on_where_it_was_and_a_torn_line_is_played_again() {
        let path = std::env::temp_dir().join(format!("sluice-sweep-{}", std::process::id())).join("runs.jsonl");
        let patience = Patience::endless();
        let runs: Vec<u64> = (0..20).collect();
        let broken = |run: &u64| if *run == 10 { Err(RunFailed("enough".into())) } else { Ok(run + 1) };
        let stopped = sweep(Some(path.clone()), 1, &patience).play(&runs, u64::to_string, broken);
        assert!(matches!(stopped, Err(Error::Void(why)) if why == "10: enough"));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"run\":\"11\",\"resu").unwrap();
        let played = AtomicUsize::new(0);
        let count = |run: &u64| {
            played.fetch_add(1, Ordering::Relaxed);
            Ok(run + 1)
        };
        let all = sweep(Some(path.clone()), 2, &patience).play(&runs, u64::to_string, count).unwrap();
        assert_eq!((all, played.into_inner()), ((1..=20).collect::<Vec<u64>>(), 10));
        let nothing = |_: &u64| Err::<u64, _>(RunFailed("played again".into()));
        assert_eq!(sweep(Some(path.clone()), 2, &patience).play(&runs, u64::to_string, nothing).unwrap()[19], 20);
        let other = ExperimentSweep { fingerprint: "test 2".into(), ..sweep(Some(path.clone()), 1, &patience) };
        assert!(other.play(&runs, u64::to_string, nothing).is_err(), "results of another sweep were taken over");
        // The same sweep of another program, whose model may be another one, is played anew.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen(&identity("test 1", program()), &identity("test 1", 1), 1)).unwrap();
        let again = sweep(Some(path.clone()), 2, &patience).play(&runs, u64::to_string, nothing);
        assert!(again.is_err(), "results of another program were taken over");
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_million_runs_are_refused_with_what_to_do() {
        let patience = Patience::endless();
        let runs = vec![0u64; 1_000_000];
        let refused = sweep(None, 1, &patience).play(&runs, u64::to_string, |_| Ok(0u8));
        assert!(matches!(refused, Err(Error::Void(why)) if why.contains("1000000 runs") && why.contains("split")));
    }
}
