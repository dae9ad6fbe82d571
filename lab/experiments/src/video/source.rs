//! The video: a test picture that never repeats within its length, encoded once to H.264 at a constant rate,
//! and the fingerprint of every picture from an undisturbed decoder.

use bed::error::Error;
use bed::patience::Patience;
use bed::program;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pictures a second.
pub const RATE: u32 = 25;
/// Pictures from one key picture to the next: the most that a loss may spoil.
pub const KEY_EVERY: u32 = 12;
/// Rate of the encoded video, kbit/s: with RTP, UDP and IP headers about 3.1 Mb/s, as the video of seed 000.
pub const ENCODED_KBPS: u32 = 3_000;
/// The length of the video, seconds. It is sent repeatedly.
const LENGTH: u32 = 12;
/// The decoder model's buffer, kbit: no picture may be much larger than the others.
const BUFFER_KBIT: u32 = 240;

/// A prepared video.
#[derive(Clone, Debug)]
pub struct VideoSource {
    /// The file to send.
    pub file: PathBuf,
    /// The fingerprint of every picture.
    pub pictures: HashSet<String>,
}

impl VideoSource {
    /// Encodes the video into `dir`.
    ///
    /// # Errors
    /// ffmpeg is missing or has no H.264 encoder; the disk is full; the user stops the run.
    pub fn prepare(dir: &Path, patience: &Patience) -> Result<VideoSource, Error> {
        let file = dir.join("video.mkv");
        program::output(&mut encode(&file), patience)?;
        let lines = program::output(&mut fingerprints(&file), patience)?;
        let pictures: HashSet<String> = lines.lines().filter_map(Picture::parse).map(|picture| picture.print).collect();
        let expected = (LENGTH * RATE) as usize;
        if pictures.len() != expected {
            let got = pictures.len();
            return Err(Error::Program(format!("ffmpeg encoded {got} different pictures instead of {expected}")));
        }
        Ok(VideoSource { file, pictures })
    }
}

/// A picture in the output of ffmpeg's `framehash`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// Its fingerprint, which is equal only for pictures with equal pixels.
    pub print: String,
}

impl Picture {
    /// Reads a line: `stream, dts, pts, duration, size, hash`; comments begin with `#`.
    pub fn parse(line: &str) -> Option<Picture> {
        let mut fields = line.split(',').map(str::trim);
        fields.next().filter(|stream| *stream == "0")?;
        let print = fields.nth(4).filter(|print| !print.is_empty() && fields.next().is_none())?;
        Some(Picture { print: print.to_owned() })
    }
}

/// Returns an ffmpeg command that prints errors only.
pub fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error"]);
    command
}

fn encode(file: &Path) -> Command {
    let mut command = ffmpeg();
    let picture = format!("testsrc2=size=640x360:rate={RATE}:duration={LENGTH}");
    let x264 = format!(
        "nal-hrd=cbr:keyint={KEY_EVERY}:min-keyint={KEY_EVERY}:scenecut=0:bframes=0:sliced-threads=0:force-cfr=1"
    );
    let (rate, buffer) = (format!("{ENCODED_KBPS}k"), format!("{BUFFER_KBIT}k"));
    command.args(["-y", "-f", "lavfi", "-i", &picture, "-vf", "noise=alls=6:allf=t", "-pix_fmt", "yuv420p"]);
    command.args(["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-x264-params", &x264]);
    command.args(["-b:v", &rate, "-maxrate", &rate, "-bufsize", &buffer]).arg(file);
    command
}

fn fingerprints(file: &Path) -> Command {
    let mut command = ffmpeg();
    command.arg("-i").arg(file).args(["-fps_mode", "passthrough", "-f", "framehash", "-hash", "murmur3", "-"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_lines() {
        let line = "0,        498,        498,        1,   345600, 102ae66274917a2aee8c920fca216154";
        assert_eq!(Picture::parse(line).unwrap().print, "102ae66274917a2aee8c920fca216154");
        for bad in ["#format: frame checksums", "", "1, 0, 0, 1, 2, abc", "0, 1, 2, 3, 4", "0, 1, 2, 3, 4, a, b"] {
            assert_eq!(Picture::parse(bad), None, "{bad}");
        }
    }
}
