//! `cargo xtask pages`: the man pages of configuration files (section 5), which are made of what stands at the head of the sources
//! that read them.
//!
//! A source's head has its keys as TOML, a comment beside each; here they become a list. The check holds the pages in `dist/man`
//! to the sources, and every key that the program itself names (`client/cli/tests/agents/baseline/kept/keys.txt`) to its page.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A path, the table that it begins in, and a table that is called otherwise on this page.
type Source = (&'static str, &'static str, Option<(&'static str, &'static str)>);

/// A page, and what it is made of.
struct Page {
    /// The file that it is about.
    name: &'static str,
    /// The line under NAME.
    line: &'static str,
    /// The path of the file, or the command that takes it.
    place: &'static str,
    /// The sources.
    sources: &'static [Source],
    /// The file's name in the list of keys; the policy is read by the agent alone and is not in it.
    keys: &'static str,
    /// The pages that belong to it.
    also: &'static [&'static str],
}

const PAGES: [Page; 5] = [
    Page {
        name: "agent.toml",
        line: "configuration of the agent of Sluice",
        place: "/etc/sluice/agent.toml",
        sources: &[
            ("service/agent/src/config.rs", "", None),
            ("service/agent/src/role.rs", "interface", None),
            ("service/agent/src/host_file.rs", "", None),
            ("service/agent/src/sla_file.rs", "", None),
            ("service/agent/src/book/broker_file.rs", "", None),
            ("service/agent/src/remote/config.rs", "", None),
            ("api/rpc/src/domains.rs", "", None),
            ("service/agent/src/mace/config.rs", "", None),
            ("service/agent/src/boomerang/config.rs", "", None),
            ("service/agent/src/mroutes.rs", "", None),
            ("service/agent/src/statics_file.rs", "", None),
            ("service/agent/src/receiver_proxy.rs", "", None),
            ("service/agent/src/keys.rs", "key", None),
        ],
        keys: "agent",
        also: &["sluice-agent 1", "sluice-doctor 1", "sluice-policy.toml 5"],
    },
    Page {
        name: "broker.toml",
        line: "configuration of the broker of Sluice",
        place: "/etc/sluice/broker.toml",
        sources: &[
            ("service/broker/src/config.rs", "", None),
            ("api/rpc/src/domains.rs", "", Some(("listen.domain", "tls.domain"))),
            ("service/broker/src/neighbours.rs", "", None),
            ("service/broker/src/routing.rs", "", None),
            ("service/broker/src/domains/settings.rs", "", None),
            ("service/broker/src/shared_store.rs", "", None),
        ],
        keys: "broker",
        also: &["sluice-broker 1", "sluice-ca 1", "sluice-agent.toml 5"],
    },
    Page {
        name: "policy.toml",
        line: "who may reserve what at an agent of Sluice",
        place: "/etc/sluice/policy.toml",
        sources: &[("service/agent/src/book/policy_file.rs", "", None)],
        keys: "policy",
        also: &["sluice-may 1", "sluice-audit 1", "sluice-agent.toml 5"],
    },
    Page {
        name: "topology.toml",
        line: "a testbed of Sluice: nodes and links",
        place: "FILE of sluice up FILE",
        sources: &[
            ("lab/bed/src/file.rs", "", None),
            ("lab/bed/src/domain.rs", "", None),
            ("lab/bed/src/agreement.rs", "", None),
        ],
        keys: "testbed",
        also: &["sluice-up 1", "sluice-agent.toml 5"],
    },
    Page {
        name: "scenario.toml",
        line: "a scenario of the simulator of Sluice",
        place: "FILE of sluice sim run FILE",
        sources: &[
            ("lab/experiments/src/scenario/text.rs", "", None),
            ("lab/experiments/src/scenario/mace.rs", "", None),
        ],
        keys: "scenario",
        also: &["sluice-sim-run 1", "sluice-plane-run 1"],
    },
];

/// A key, as it may be written, and what is said of it.
struct Entry {
    key: String,
    example: String,
    text: String,
}

/// A table of the file; the first has no name.
#[derive(Default)]
struct Table {
    name: String,
    /// True: `[[name]]`, as often as is wanted.
    array: bool,
    text: String,
    entries: Vec<Entry>,
}

/// The heads of the sources of a page, read.
#[derive(Default)]
struct Contents {
    tables: Vec<Table>,
    /// The table that lines belong to now.
    at: usize,
    /// Paragraphs, each with the table that it stands before.
    prose: Vec<(usize, String)>,
    /// True within a text of several lines.
    within: bool,
}

impl Contents {
    fn table(&mut self, name: &str, array: bool) -> &mut Table {
        self.at = self.tables.iter().position(|table| table.name == name).unwrap_or_else(|| {
            self.tables.push(Table { name: name.to_owned(), array, ..Table::default() });
            self.tables.len() - 1
        });
        &mut self.tables[self.at]
    }

    /// Reads the head of one source.
    fn source(&mut self, text: &str, within: &str, other: Option<(&str, &str)>) {
        self.table(within, within == "key");
        let (mut toml, mut paragraph, mut said) = (false, String::new(), Vec::new());
        let mut first = None;
        let head =
            text.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.strip_prefix(' ').unwrap_or(line));
        for line in head.chain([""]) {
            match line.trim() {
                "```toml" => toml = true,
                "```" => toml = false,
                "" if !toml => said.push(std::mem::take(&mut paragraph)),
                words if !toml => {
                    paragraph += words;
                    paragraph.push(' ');
                }
                _ => {
                    let line = other.map_or_else(|| line.to_owned(), |(from, to)| line.replace(from, to));
                    self.line(&line);
                    first.get_or_insert(self.at);
                }
            }
        }
        let first = first.unwrap_or(0);
        self.prose.extend(said.into_iter().filter(|text| !text.is_empty()).map(|text| (first, plain(&text))));
    }

    /// Reads one line of TOML.
    fn line(&mut self, line: &str) {
        let (code, comment) = parted(line);
        let (code, comment) = (code.trim(), plain(comment.trim()));
        if self.within {
            self.within = !code.contains("\"\"\"");
            return;
        }
        if let Some(name) = code.strip_prefix('[') {
            let array = name.starts_with('[');
            let table = self.table(name.trim_matches(['[', ']']), array);
            let before = if table.text.is_empty() { String::new() } else { sentence(&table.text) };
            table.text = before;
            join(&mut table.text, &comment);
        } else if let Some((key, example)) = code.split_once('=') {
            self.within = example.matches("\"\"\"").count() == 1;
            let (key, example) = (key.trim().to_owned(), example.trim().to_owned());
            let table = &mut self.tables[self.at];
            match table.entries.iter_mut().find(|entry| entry.key == key) {
                // Another value of the same key, or a second place that speaks of it.
                Some(entry) if entry.example == example => join(&mut entry.text, &comment),
                Some(entry) if comment.is_empty() => join(&mut entry.text, &format!("Or {example}.")),
                Some(entry) => {
                    let before = sentence(&entry.text);
                    entry.text = format!("{before} {example}: {comment}");
                }
                None => table.entries.push(Entry { key, example, text: comment }),
            }
        } else {
            let table = &mut self.tables[self.at];
            let text = table.entries.last_mut().map_or(&mut table.text, |entry| &mut entry.text);
            join(text, &comment);
        }
    }

    /// True if a table, or a key of any table, has this name.
    fn names(&self, key: &str) -> bool {
        self.tables.iter().any(|table| table.name == key || table.entries.iter().any(|entry| entry.key == key))
    }

    /// True if the page says of a table, or of one of its keys, that it is as in the agent's file.
    fn leaves_to_the_agent(&self, path: &str) -> bool {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        let as_there = |text: &str| text.contains("as in the agent's configuration");
        self.tables.iter().filter(|found| found.name == table).any(|found| {
            as_there(&found.text)
                || found
                    .entries
                    .iter()
                    .any(|one| as_there(&one.text) && one.text.split([' ', ',']).any(|word| word == key))
        })
    }

    /// True if a table that the path goes through speaks of its last key: a queue may stand in several places, and has one
    /// section.
    fn has_within(&self, path: &str) -> bool {
        let mut parts: Vec<&str> = path.split('.').collect();
        let Some(key) = parts.pop() else { return false };
        if parts.iter().any(|part| ["there", "back"].contains(part)) {
            parts.push("queue");
        }
        let assigned = format!("{key} =");
        let on_the_way = self.tables.iter().filter(|table| parts.contains(&table.name.as_str()));
        let mut entries = on_the_way.flat_map(|table| &table.entries);
        entries
            .any(|entry| entry.key == key || [&entry.example, &entry.text].iter().any(|text| text.contains(&assigned)))
    }

    /// True if the page speaks of a key: in its table, or as a part of another's example.
    fn has(&self, path: &str) -> bool {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        let is_table = self.tables.iter().any(|found| found.name == path);
        let is_entry =
            self.tables.iter().any(|found| found.name == table && found.entries.iter().any(|one| one.key == key));
        let (above, inline) = table.rsplit_once('.').unwrap_or(("", table));
        let within = self.tables.iter().filter(|found| found.name == above);
        let mut parts = within.flat_map(|found| &found.entries).filter(|entry| entry.key == inline);
        is_table || is_entry || parts.any(|entry| entry.example.contains(&format!("{key} =")))
    }
}

/// The keys that a source of one table of rules reads: the fields of its structs that take no other.
fn fields(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    let mut closed = false;
    for line in source.lines() {
        closed |= line == "#[serde(deny_unknown_fields)]";
        if closed && line.starts_with("struct ") {
            (closed, inside) = (false, true);
        } else if line == "}" {
            inside = false;
        } else if inside && let Some((name, _)) = line.trim().split_once(':') {
            found.push(name.to_owned());
        }
    }
    found
}

fn join(to: &mut String, text: &str) {
    if !to.is_empty() && !text.is_empty() {
        to.push(' ');
    }
    *to += text;
}

/// Code and comment of a line: the first `#` outside of a text.
fn parted(line: &str) -> (&str, &str) {
    let mut quoted = false;
    for (at, letter) in line.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '#' if !quoted => return (&line[..at], &line[at + 1..]),
            _ => {}
        }
    }
    (line, "")
}

/// Words for who reads no Rust: where the sources say in which of them more stands, it is on this page.
fn plain(text: &str) -> String {
    let mut text = text.replace("docs/", "/usr/share/doc/sluice-doc/docs/");
    while let Some(from) = text.find("see `") {
        let Some(length) = text[from + 5..].find('`') else { break };
        let before = text[..from].trim_end_matches([' ', ':', ',', '(']).len();
        let mut after = from + 5 + length + 1;
        if text[before..from].contains('(') && text[after..].starts_with(')') {
            after += 1;
        }
        text.replace_range(before..after, "");
    }
    for (of_sources, here) in [
        ("see keys.rs", "the section [[key]]"),
        ("see book/policy_file.rs", "sluice-policy.toml(5)"),
        (" (`sla_file`)", ""),
        ("`", ""),
    ] {
        text = text.replace(of_sources, here);
    }
    text.trim().to_owned()
}

/// Text as roff takes it.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

/// An argument of a macro, as one.
fn argument(text: &str) -> String {
    format!("\"{}\"", roff(text).replace('"', "\\(dq"))
}

fn sentence(text: &str) -> String {
    let text = text.trim_end_matches([';', ',']);
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.is_empty() || text.ends_with(['.', ':']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

fn read(root: &Path, page: &Page) -> Result<Contents, String> {
    let mut contents = Contents::default();
    for (source, within, other) in page.sources {
        let text = fs::read_to_string(root.join(source)).map_err(|error| format!("{source}: {error}"))?;
        contents.source(&text, within, *other);
    }
    Ok(contents)
}

/// The page as mdoc(7).
fn text(page: &Page, contents: &Contents) -> String {
    let title = format!("sluice-{}", page.name);
    let mut out = format!(
        ".\\\" Made by `cargo xtask pages` of the sources that read the file: change it there.\n.Dd November 28, 2026\n.Dt {} 5\n.Os\n.Sh NAME\n\
         .Nm {title}\n.Nd {}\n.Sh DESCRIPTION\n{} is in TOML. A key that is not on this page is refused, with its line.\n\
         .Pp\nEach key stands here as it may be written, and then what it means.\n",
        title.to_uppercase(),
        roff(page.line),
        roff(page.place),
    );
    for (at, table) in contents.tables.iter().enumerate() {
        if !table.name.is_empty() {
            let name = if table.array { format!("[[{}]]", table.name) } else { format!("[{}]", table.name) };
            let _ = writeln!(out, ".Sh {}", argument(&name));
        }
        for (_, words) in contents.prose.iter().filter(|(before, _)| *before == at) {
            let _ = writeln!(out, ".Pp\n{}", roff(words));
        }
        if !table.text.is_empty() {
            let _ = writeln!(out, ".Pp\n{}", roff(&sentence(&table.text)));
        }
        if !table.entries.is_empty() {
            out += ".Bl -tag -width Ds\n";
        }
        for entry in &table.entries {
            let _ = writeln!(out, ".It Ic {} Li {}", roff(&entry.key), argument(&format!("= {}", entry.example)));
            if !entry.text.is_empty() {
                let _ = writeln!(out, "{}", roff(&sentence(&entry.text)));
            }
        }
        if !table.entries.is_empty() {
            out += ".El\n";
        }
    }
    out += ".Sh SEE ALSO\n";
    for (at, other) in page.also.iter().enumerate() {
        let _ = writeln!(out, ".Xr {other}{}", if at + 1 < page.also.len() { " ," } else { "" });
    }
    out
}

fn path(page: &Page) -> String {
    format!("dist/man/sluice-{}.5", page.name)
}

/// Writes the pages.
pub fn write(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    for page in &PAGES {
        let written = read(root, page).and_then(|contents| {
            fs::write(root.join(path(page)), text(page, &contents)).map_err(|error| format!("{}: {error}", path(page)))
        });
        findings.extend(written.err());
    }
    findings
}

/// Pages that are not as their sources are, keys that no page has, and documents that the site's contents do not have.
pub fn check(root: &Path) -> Vec<String> {
    let keys = "client/cli/tests/agents/baseline/kept/keys.txt";
    let keys = match fs::read_to_string(root.join(keys)) {
        Ok(text) => text,
        Err(error) => return vec![format!("{keys}: {error}")],
    };
    let agent = read(root, &PAGES[0]).unwrap_or_default();
    let fields = fields(&crate::source::read(root, Path::new(PAGES[2].sources[0].0)));
    let mut findings = crate::links::unlisted(root);
    for page in &PAGES {
        let contents = match read(root, page) {
            Ok(contents) => contents,
            Err(finding) => {
                findings.push(finding);
                continue;
            }
        };
        if fs::read_to_string(root.join(path(page))).ok() != Some(text(page, &contents)) {
            findings.push(format!("{}: not as its sources are: cargo xtask pages write", path(page)));
        }
        let of = keys.lines().filter_map(|line| line.split_once(' ')).filter(|(file, _)| *file == page.keys);
        let said = |key: &str| match page.keys {
            "scenario" => contents.has(key) || contents.has_within(key),
            _ => contents.has(key) || contents.leaves_to_the_agent(key) && agent.has(key),
        };
        let of: Vec<&str> = match page.keys {
            // Its tables are read by one struct each, whose names the file does not have.
            "policy" => fields.iter().map(String::as_str).filter(|key| !contents.names(key)).collect(),
            _ => of.map(|(_, key)| key).collect(),
        };
        let missing = of.into_iter().filter(|key| !said(key));
        findings.extend(
            missing
                .map(|key| format!("{}: {key} is a key and is not at the head of {}", path(page), page.sources[0].0)),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_becomes_tables_and_entries() {
        let mut contents = Contents::default();
        contents.source(
            "//! About it.\n//!\n//! ```toml\n//! name = \"a # b\"   # who: see `names`\n//! [[part]]  # of it\n//! rate = \"1mbit\"   # how\n//!    # much\n\
             //! core = { premium = \"1\" }\n//! ```\nuse std;\n",
            "",
            None,
        );
        assert_eq!(contents.tables[0].entries[0].example, "\"a # b\"");
        assert_eq!(contents.tables[0].entries[0].text, "who");
        assert_eq!(contents.tables[1].entries[0].text, "how much");
        assert!(contents.tables[1].array && contents.has("part") && contents.has("part.core.premium"));
        assert!(!contents.has("part.core.background") && !contents.has("rate") && !contents.has("part.name"));
    }
}
