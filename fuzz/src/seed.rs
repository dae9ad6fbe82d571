//! Writes `corpus/` for the fuzz targets from the readable seed corpora in `engine/wire/seeds` and
//! `engine/wire/probes`.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in fs::read_dir(root.join("../engine/wire/seeds"))? {
        let path = entry?.path();
        let bytes = read_hex(&fs::read_to_string(&path)?)?;
        let name = path.file_stem().unwrap_or_default();
        put(root, "message", name, &bytes)?;
        put(root, "packet", name, &packet(&bytes))?;
        put(root, "capture", name, &capture(&packet(&bytes)))?;
        if let Ok(message) = wire::Message::parse(&bytes) {
            for (i, object) in message.envelope().objects.enumerate() {
                let body = [&[object.class, object.ctype], object.body].concat();
                put(root, "object", format!("{}-{i}", name.to_string_lossy()).as_ref(), &body)?;
            }
        }
        count += 1;
    }
    for entry in fs::read_dir(root.join("../engine/wire/probes"))? {
        let path = entry?.path();
        let packet = read_hex(&fs::read_to_string(&path)?)?;
        let name = path.file_stem().unwrap_or_default();
        put(root, "boomerang", name, &packet)?;
        put(root, "packet", name, &packet)?;
        count += 1;
    }
    println!("{count} seeds");
    Ok(())
}

fn put(root: &Path, target: &str, name: &std::ffi::OsStr, bytes: &[u8]) -> io::Result<()> {
    let folder = root.join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

fn read_hex(text: &str) -> io::Result<Vec<u8>> {
    let digits: String = text.lines().flat_map(|l| l.split('#').next().unwrap_or("").split_whitespace()).collect();
    let pair = |i| u8::from_str_radix(digits.get(2 * i..2 * i + 2).unwrap_or("?"), 16);
    (0..digits.len() / 2).map(pair).collect::<Result<_, _>>().map_err(io::Error::other)
}

fn packet(payload: &[u8]) -> Vec<u8> {
    wire::ip::packet([10, 0, 1, 1].into(), [10, 0, 2, 2].into(), 46, 64, true, payload).unwrap_or_default()
}

fn capture(packet: &[u8]) -> Vec<u8> {
    let word = |w: u32| w.to_le_bytes();
    let length = packet.len() as u32;
    let head = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101, 1, 0, length, length].map(word).concat();
    [&head, packet].concat()
}
