//! The shipped eBPF object is what its source makes: program and maps, byte for byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The sections of a little-endian ELF64 file, by name.
fn sections(elf: &[u8]) -> BTreeMap<String, &[u8]> {
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]]));
    let u32_at = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().expect("four bytes")) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().expect("eight bytes")) as usize;
    assert_eq!(&elf[..6], b"\x7fELF\x02\x01");
    let (table, count, names) = (u64_at(0x28), u16_at(0x3c), u16_at(0x3e));
    let header = |n: usize| table + 64 * n;
    let content = |n: usize| &elf[u64_at(header(n) + 24)..u64_at(header(n) + 24) + u64_at(header(n) + 32)];
    let name = |n: usize| {
        let bytes = &content(names)[u32_at(header(n))..];
        String::from_utf8_lossy(bytes.split(|b| *b == 0).next().expect("a name")).into_owned()
    };
    (1..count).map(|n| (name(n), content(n))).collect()
}

/// Each object: its sections that the kernel gets, and as which it is embedded.
const OBJECTS: [(&str, &[&str], &[u8]); 9] = [
    ("flow", &["classifier", ".maps", "license"], linux::bpf::OBJECT),
    ("mace", &["classifier", ".maps", "license"], linux::bpf::mace::OBJECT),
    ("edge", &["classifier", ".maps", "license"], linux::bpf::edge::OBJECT),
    ("boomerang", &["xdp", "classifier", ".text", ".maps", "license"], linux::boomerang::OBJECT),
    ("packets", &["classifier", ".maps", "license"], linux::bpf::packet_order::OBJECT),
    ("parade", &["xdp", ".maps", "license"], linux::boomerang::packet_script::OBJECT),
    ("touch", &["xdp", ".maps", "license"], linux::boomerang::packet_script::TOUCH),
    ("gate", &["socket", ".maps", "license"], linux::sockets::GATE),
    ("checkpoint", &["classifier", ".maps", "license"], linux::bpf::checkpoint::OBJECT),
];

#[test]
fn the_shipped_objects_are_what_their_sources_make() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let clang = Command::new("clang-14").arg("--version").output();
    if !clang.is_ok_and(|output| output.status.success()) {
        bench::skipped("no clang-14 (Debian: clang-14 llvm-14 libbpf-dev); the eBPF objects were not rebuilt");
        return;
    }
    let scratch = std::env::temp_dir().join(format!("sluice-object-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a directory");
    for file in std::fs::read_dir(&dir).expect("the sources").flatten() {
        if file.path().extension().is_none_or(|extension| extension != "o") {
            std::fs::copy(file.path(), scratch.join(file.file_name())).expect("copy");
        }
    }
    let made = Command::new("make").arg("-C").arg(&scratch).output().expect("make runs");
    let rebuilt = OBJECTS.map(|(name, ..)| std::fs::read(scratch.join(format!("{name}.o"))));
    std::fs::remove_dir_all(&scratch).expect("removed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for ((name, parts, embedded), rebuilt) in OBJECTS.into_iter().zip(rebuilt) {
        let own = std::fs::read(dir.join(format!("{name}.o"))).expect("shipped");
        let rebuilt = rebuilt.expect("made");
        let (rebuilt, shipped) = (sections(&rebuilt), sections(&own));
        for &section in parts {
            assert!(!shipped[section].is_empty(), "{section}");
            let same = rebuilt[section] == shipped[section];
            assert!(same, "{section} differs: run `make -C driver/linux/bpf` and commit {name}.o");
        }
        assert_eq!(own, embedded, "what is embedded is what is shipped");
        let text = String::from_utf8_lossy(&own);
        let source = format!("./{name}.c");
        assert!(text.contains(&source) && !text.contains(&*dir.to_string_lossy()), "no path of whoever built it");
    }
}
