//! One shell for one page, in namespaces of its own.

use crate::docs::page::{Block, Page};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(150);
/// The same at night.
const AT_NIGHT: Duration = Duration::from_secs(1_800);

/// What the shell is given before the page: places of its own, and `sluice` as the reader has it.
const PRELUDE: &str = r#"
set -m
fail() { echo "docs: $*" >&2; exit 97; }
mount --make-rprivate / || fail mount
cp -a /etc "$DOCS_WORK/etc" && mount --bind "$DOCS_WORK/etc" /etc || fail etc
mkdir -p /var/lib/sluice && mount -t tmpfs tmpfs /var/lib/sluice || fail state
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /tmp || fail run
ip link set lo up
mkdir -p /etc/sluice /run/docs && ln -s "$DOCS_SLUICE" /run/docs/sluice
export PATH=/run/docs:$PATH
unset SLUICE_BROKER
# The reader copies the handle of what they have reserved.
sluice() {
    local words=() word
    for word in "$@"; do
        case "$word" in HANDLE) word=$(cat /run/docs/handle) ;; esac
        words+=("$word")
    done
    # In the background it is the program itself, so that whoever ends it ends it.
    [ $BASHPID = $$ ] || exec sluice "${words[@]}"
    if [ "$1" = reserve ]; then
        command sluice "${words[@]}" > /run/docs/reserved
        local status=$?
        cat /run/docs/reserved
        [ $status = 0 ] && head -1 /run/docs/reserved | cut -d' ' -f1 > /run/docs/handle
        return $status
    fi
    command sluice "${words[@]}"
}
# Until it is there, as a reader who looks again.
soon() { local n; for n in $(seq 100); do "$@" > /dev/null 2>&1 && return 0; sleep 0.1; done; "$@"; }
ended() { local status=$1 wanted=$2 line=$3; case " $wanted " in *" $status "*) ;; *) fail "line $line: exit status $status" ;; esac; }
"#;

/// Runs a page from the root of the repository.
///
/// # Errors
/// The line, and what went wrong there.
pub fn run(root: &Path, program: &Path, page: &Page, nightly: bool) -> Result<(), String> {
    let work =
        std::env::temp_dir().join(format!("sluice-docs-{}-{:?}", std::process::id(), std::thread::current().id()));
    let work = work.to_string_lossy().replace(['(', ')'], "");
    let work = Path::new(&work);
    let _ = std::fs::remove_dir_all(work);
    std::fs::create_dir_all(work).map_err(|error| error.to_string())?;
    let (script, log) = (work.join("script"), work.join("log"));
    std::fs::write(&script, written(page, nightly)).map_err(|error| error.to_string())?;
    let output = std::fs::File::create(&log).map_err(|error| error.to_string())?;
    // A shell that was told to ignore an interrupt, as one behind `nohup` or `&` is, cannot be told otherwise from inside.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT,QUIT", "unshare"])
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"])
        .arg(&script)
        .env("DOCS_SLUICE", program)
        .env("DOCS_WORK", work)
        .env("PYTHONPATH", root.join("client/python"))
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(|error| error.to_string())?)
        .stderr(output);
    let mut child = command.spawn().map_err(|error| format!("unshare: {error}"))?;
    let until = Instant::now() + if nightly { AT_NIGHT } else { PATIENCE };
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break Some(status),
            None if Instant::now() > until => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let said = String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
    let _ = std::fs::remove_dir_all(work);
    match status {
        Some(status) if status.success() => printed(page, &said, nightly),
        Some(status) => Err(format!("{status}\n{said}")),
        None => Err(format!("not over in time\n{said}")),
    }
}

/// The page as a script. Each command is announced, so that what it prints is known.
fn written(page: &Page, nightly: bool) -> String {
    let mut text = PRELUDE.to_owned();
    for block in &page.blocks {
        match block {
            Block::Before { line, text: body } => {
                let _ = writeln!(text, "echo '@before {line}'\n{body}");
            }
            Block::Commands { nightly: true, .. } if !nightly => {}
            Block::Commands { lines, .. } => {
                for (line, command) in lines {
                    let _ = writeln!(text, "echo '@line {line}'\n{}", one(*line, command));
                }
            }
            Block::Prints { .. } | Block::Left { .. } => {}
        }
    }
    text + "kill $(jobs -p) 2> /dev/null\nexit 0\n"
}

/// One command with the status that it must have.
fn one(line: usize, command: &str) -> String {
    // `alice$ command`: on that machine, which the page has made.
    let told = command.split_once("$ ").filter(|(name, _)| name.chars().all(|c| c.is_ascii_lowercase()));
    let command = &told.map_or(command.to_owned(), |(name, rest)| format!("on {name} {}", rest.trim_start()));
    let comment =
        command.lines().last().and_then(|last| last.rsplit_once(" #")).map_or("", |(_, comment)| comment.trim());
    if comment.contains("Ctrl-C") {
        // As the reader ends it.
        let bare = command.rsplit_once(" #").map_or(command.as_str(), |(bare, _)| bare);
        return format!("{bare} &\nreader=$!; sleep 1.5; kill -INT -- -$reader; wait $reader; ended $? '0 130' {line}");
    }
    let wanted = if comment.starts_with("refused") { "1" } else { "0" };
    format!("{command}\nended $? {wanted} {line}")
}

/// Whether each block that says so printed what it says.
fn printed(page: &Page, said: &str, nightly: bool) -> Result<(), String> {
    let mut own = String::new();
    for block in &page.blocks {
        match block {
            Block::Commands { nightly: true, .. } if !nightly => own.clear(),
            Block::Commands { lines, .. } => {
                let of = |line: &usize| {
                    let begin = format!("@line {line}\n");
                    let rest = said.split_once(&begin).map_or("", |(_, rest)| rest);
                    rest.split("\n@").next().unwrap_or_default().to_owned()
                };
                own = lines.iter().map(|(line, _)| of(line) + "\n").collect();
            }
            Block::Prints { line, lines } if !own.is_empty() => {
                if let Some(missing) = missing(&own, lines) {
                    return Err(format!("line {line}: {missing:?} was not printed, but:\n{own}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The first of these lines that was not printed after those before it.
pub fn missing(said: &str, lines: &[String]) -> Option<String> {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = said.lines().map(plain);
    for line in lines.iter().filter(|line| !line.trim().is_empty()) {
        let pieces: Vec<String> = line.split('…').map(plain).collect();
        let fits = |found: &String| {
            let mut at = 0;
            pieces.iter().all(|piece| match found[at..].find(piece.as_str()) {
                Some(place) => {
                    at += place + piece.len();
                    true
                }
                None => false,
            })
        };
        if !rest.by_ref().any(|found| fits(&found)) {
            return Some(line.clone());
        }
    }
    None
}
