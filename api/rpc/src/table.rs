//! Aligned tables for terminals: numbers to the right, words to the left.

/// A column's alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The colour of a cell (the number of an SGR sequence, as `31` for red); `None`: it has none.
pub type Paint = fn(&str) -> Option<&'static str>;

/// The fewest characters to which a word is cut.
const LEAST: usize = 8;

/// A table under construction.
#[derive(Clone, Debug)]
pub struct TextTable {
    head: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    paint: Option<Paint>,
}

impl TextTable {
    /// An empty table with these columns.
    pub fn new(head: &[(impl AsRef<str>, Align)]) -> TextTable {
        let head = head.iter().map(|(name, align)| (name.as_ref().to_string(), *align));
        TextTable { head: head.collect(), rows: Vec::new(), paint: None }
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

    /// The same with colours.
    #[must_use]
    pub fn painted(self, paint: Paint) -> TextTable {
        TextTable { paint: Some(paint), ..self }
    }

    /// The same within a width: these columns are left out, in this order, until it fits; then the longest words are cut,
    /// but not below [`LEAST`] characters. Numbers are not cut.
    #[must_use]
    pub fn fitted(mut self, width: usize, dispensable: &[&str]) -> TextTable {
        for name in dispensable {
            if self.width() <= width {
                return self;
            }
            if let Some(column) = self.head.iter().position(|(head, _)| head == name) {
                self.head.remove(column);
                self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        while self.width() > width {
            let widths = self.widths();
            let words = (0..self.head.len()).filter(|i| self.head[*i].1 == Align::Left && widths[*i] > LEAST);
            let Some(widest) = words.max_by_key(|i| widths[*i]) else { return self };
            let most = widths[widest].saturating_sub(self.width() - width).max(LEAST);
            let heads = self.head.iter_mut().map(|(name, _)| name).skip(widest).take(1);
            heads.chain(self.rows.iter_mut().map(|row| &mut row[widest])).for_each(|cell| cut(cell, most));
        }
        self
    }

    fn widths(&self) -> Vec<usize> {
        let width = |i: usize| {
            let widest = self.rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
            widest.max(self.head[i].0.chars().count())
        };
        (0..self.head.len()).map(width).collect()
    }

    /// The width of all columns, with two blanks between them.
    fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
    }
}

/// Cuts a word that is longer; its end then says so.
fn cut(cell: &mut String, most: usize) {
    if cell.chars().count() > most {
        *cell = cell.chars().take(most.saturating_sub(1)).chain(['…']).collect();
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let widths = self.widths();
        let mut line = |cells: &mut dyn Iterator<Item = &str>, paint: Option<Paint>| {
            let mut text = String::new();
            for ((cell, width), (_, align)) in cells.zip(&widths).zip(&self.head) {
                let pad = " ".repeat(width - cell.chars().count());
                let cell = match paint.and_then(|paint| paint(cell)) {
                    Some(colour) => format!("\x1b[{colour}m{cell}\x1b[0m"),
                    None => cell.to_string(),
                };
                match align {
                    Align::Left => text += &format!("{cell}{pad}  "),
                    Align::Right => text += &format!("{pad}{cell}  "),
                }
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(&mut self.head.iter().map(|(name, _)| name.as_str()), None)?;
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str), self.paint)?;
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

    fn wide() -> TextTable {
        let mut table = TextTable::new(&[("handle", Align::Left), ("resource", Align::Left), ("rate", Align::Right)]);
        table.row(["abcdefghijklmnopqrstuvwxyz".to_string(), "net/eth1".to_string(), "10.00mbit".to_string()]);
        table
    }

    #[test]
    fn what_is_too_wide_loses_columns_and_then_the_ends_of_words() {
        let lines = |table: TextTable| table.to_string().lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(wide().fitted(47, &[])), lines(wide()), "it fits");
        assert_eq!(lines(wide().fitted(46, &["none", "resource"]))[1], "abcdefghijklmnopqrstuvwxyz  10.00mbit");
        let cut = lines(wide().fitted(30, &[]));
        assert_eq!(cut[1], "abcdefgh…  net/eth1  10.00mbit");
        assert!(cut.iter().all(|line| line.chars().count() <= 30), "{cut:?}");
        // Nothing is cut to less than can be told apart.
        assert_eq!(lines(wide().fitted(5, &[]))[1], "abcdefg…  net/eth1  10.00mbit");
    }

    #[test]
    fn colours_take_no_room() {
        let paint: Paint = |cell| (cell == "net/eth1").then_some("31");
        let (plain, painted) = (wide().to_string(), wide().painted(paint).to_string());
        assert!(painted.contains("\u{1b}[31mnet/eth1\u{1b}[0m  10.00mbit"), "{painted:?}");
        assert_eq!(painted.replace("\u{1b}[31m", "").replace("\u{1b}[0m", ""), plain);
    }
}
