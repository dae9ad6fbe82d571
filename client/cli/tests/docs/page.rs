//! A page of Markdown as blocks that are run, prepared, expected, or left out with a reason.

/// A part of a page that means something here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    /// Made around what the reader types.
    Before {
        /// Its first line in the page.
        line: usize,
        /// Shell.
        text: String,
    },
    /// What the reader types: each command with its line.
    Commands {
        /// Only in the long form of the tests.
        nightly: bool,
        /// The commands; one that goes on over lines is one.
        lines: Vec<(usize, String)>,
    },
    /// What the commands before it print.
    Prints {
        /// Its first line in the page.
        line: usize,
        /// Line by line.
        lines: Vec<String>,
    },
    /// Not run.
    Left {
        /// Where.
        line: usize,
        /// Why.
        reason: String,
    },
}

/// A page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// In its order.
    pub blocks: Vec<Block>,
}

/// What a comment says about the block after it.
#[derive(Debug)]
enum Mark {
    NotRun(String),
    Nightly,
    Prints,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// The line, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Page, (usize, String)> {
        let mut page = Page::default();
        let mut mark: Option<(usize, Mark)> = None;
        let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
        while let Some((at, line)) = lines.next() {
            if line.trim() == "<!-- before" {
                let mut body = String::new();
                loop {
                    match lines.next() {
                        Some((_, line)) if line.trim() == "-->" => break,
                        Some((_, line)) => body += &format!("{line}\n"),
                        None => return Err((at, "this comment does not end".to_owned())),
                    }
                }
                page.blocks.push(Block::Before { line: at + 1, text: body });
                continue;
            }
            if let Some(said) = line.trim().strip_prefix("<!-- ").and_then(|line| line.strip_suffix("-->")) {
                match said.trim() {
                    "nightly" => mark = Some((at, Mark::Nightly)),
                    "prints" => mark = Some((at, Mark::Prints)),
                    said => {
                        if let Some(reason) = said.strip_prefix("not run:") {
                            if reason.trim().is_empty() {
                                return Err((at, "not run, and why?".to_owned()));
                            }
                            mark = Some((at, Mark::NotRun(reason.trim().to_owned())));
                        }
                    }
                }
                continue;
            }
            let Some(language) = line.strip_prefix("```") else {
                if let (Some((at, _)), false) = (&mark, line.trim().is_empty()) {
                    return Err((*at, "there is no block after this comment".to_owned()));
                }
                continue;
            };
            let mut body = Vec::new();
            loop {
                match lines.next() {
                    Some((_, "```")) => break,
                    Some(found) => body.push(found),
                    None => return Err((at, "this block does not end".to_owned())),
                }
            }
            page.block(at, language, body, mark.take())?;
        }
        Ok(page)
    }

    fn block(
        &mut self,
        at: usize,
        language: &str,
        body: Vec<(usize, &str)>,
        mark: Option<(usize, Mark)>,
    ) -> Result<(), (usize, String)> {
        match (language, mark) {
            (_, Some((_, Mark::NotRun(reason)))) => self.blocks.push(Block::Left { line: at - 1, reason }),
            ("sh", mark) => {
                let nightly = matches!(mark, Some((_, Mark::Nightly)));
                self.blocks.push(Block::Commands { nightly, lines: commands(&body) });
            }
            (_, Some((marked, Mark::Prints))) => {
                if !self.blocks.iter().any(|block| matches!(block, Block::Commands { .. })) {
                    return Err((marked, "nothing before it was run".to_owned()));
                }
                let lines = body.iter().map(|(_, line)| (*line).to_owned()).collect();
                self.blocks.push(Block::Prints { line: at, lines });
            }
            (_, Some((marked, Mark::Nightly))) => return Err((marked, "no sh block after this comment".to_owned())),
            (_, None) => {}
        }
        Ok(())
    }

    /// What is left out, and why.
    pub fn not_run(&self) -> Vec<(usize, String)> {
        let left = |block: &Block| match block {
            Block::Left { line, reason } => Some((*line, reason.clone())),
            _ => None,
        };
        self.blocks.iter().filter_map(left).collect()
    }
}

/// Command by command: a line that ends in a backslash, or is within a here-document, goes on.
fn commands(body: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut ends: Option<String> = None;
    let mut open = false;
    for (at, line) in body {
        match all.last_mut().filter(|_| open) {
            Some((_, text)) => *text += &format!("\n{line}"),
            None if line.trim().is_empty() || line.trim_start().starts_with('#') => continue,
            None => all.push((*at, (*line).to_owned())),
        }
        if let Some(end) = &ends {
            open = *line != end.as_str();
            if !open {
                ends = None;
            }
            continue;
        }
        ends = line.split_once("<<").map(|(_, word)| {
            let word = word.trim_start_matches('-').split_whitespace().next().unwrap_or_default();
            word.trim_matches(['\'', '"']).to_owned()
        });
        open = ends.is_some() || line.ends_with('\\');
    }
    all
}
