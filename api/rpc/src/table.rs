//! Aligned tables for terminals: numbers to the right, words to the left.

/// A column's alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table under construction.
#[derive(Clone, Debug)]
pub struct TextTable {
    head: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// An empty table with these columns.
    pub fn new(head: &[(impl AsRef<str>, Align)]) -> TextTable {
        let head = head.iter().map(|(name, align)| (name.as_ref().to_string(), *align));
        TextTable { head: head.collect(), rows: Vec::new() }
    }

    /// Adds a row; a short one is filled with blanks.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().collect();
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }

    /// True if it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |i: usize| {
            let widest = self.rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
            widest.max(self.head[i].0.chars().count())
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for ((cell, width), (_, align)) in cells.zip(&widths).zip(&self.head) {
                let pad = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => text += &format!("{cell}{pad}  "),
                    Align::Right => text += &format!("{pad}{cell}  "),
                }
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(&mut self.head.iter().map(|(name, _)| name.as_str()))?;
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns() {
        let mut table = TextTable::new(&[("name", Align::Left), ("rate", Align::Right)]);
        table.row(["maui".to_string(), "10.0".to_string()]);
        table.row(["swissvale".to_string(), "100.0".to_string()]);
        assert_eq!(table.to_string(), "name        rate\nmaui        10.0\nswissvale  100.0\n");
    }
}
