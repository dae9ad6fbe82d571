//! `[mail]` of the broker's file: the site's program, the sender, and who may be written to.

use crate::webhook::mail::{MailAddress, MailPattern};
use rpc::document::{Document, Mistake};
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// The site's program, unless the file names another.
const SENDMAIL: &str = "/usr/sbin/sendmail";
/// Mails an hour, unless the file says otherwise: of all, and of one owner.
const USUAL: (usize, usize) = (200, 20);
/// The most that a file may say.
const MOST: u32 = 10_000;

/// The settings of mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailSettings {
    /// The site's program.
    pub sendmail: PathBuf,
    /// The sender's address.
    pub from: MailAddress,
    /// The addresses that are allowed.
    pub to: Vec<MailPattern>,
    /// The most mails an hour.
    pub per_hour: usize,
    /// The most of one owner.
    pub per_hour_of_one: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MailFile {
    sendmail: Option<Spanned<PathBuf>>,
    from: Spanned<String>,
    to: Vec<Spanned<String>>,
    per_hour: Option<Spanned<u32>>,
    per_hour_of_one: Option<Spanned<u32>>,
}

/// Reads the settings.
///
/// # Errors
/// The first [`Mistake`] in them.
pub(crate) fn read(document: &Document<'_>, found: Option<MailFile>) -> Result<Option<MailSettings>, Mistake> {
    let Some(found) = found else { return Ok(None) };
    let sendmail = match found.sendmail {
        Some(path) if !path.get_ref().is_absolute() => {
            return Err(document.at(path.span(), "sendmail is a whole path, such as /usr/sbin/sendmail"));
        }
        Some(path) => path.into_inner(),
        None => SENDMAIL.into(),
    };
    let from = MailAddress::parse(found.from.get_ref()).map_err(|why| document.at(found.from.span(), why))?;
    let pattern = |one: &Spanned<String>| {
        MailPattern::parse(one.get_ref()).map_err(|why| document.at(one.span(), format!("{why}; or *@HOST")))
    };
    let many = |said: Option<Spanned<u32>>, usual: usize| match said {
        Some(said) if !(1..=MOST).contains(said.get_ref()) => {
            Err(document.at(said.span(), format!("1 to {MOST} mails an hour")))
        }
        Some(said) => Ok(said.into_inner() as usize),
        None => Ok(usual),
    };
    Ok(Some(MailSettings {
        sendmail,
        from,
        to: found.to.iter().map(pattern).collect::<Result<_, _>>()?,
        per_hour: many(found.per_hour, USUAL.0)?,
        per_hour_of_one: many(found.per_hour_of_one, USUAL.1)?,
    }))
}

#[cfg(test)]
mod tests {
    use crate::config::BrokerConfig;
    use std::path::Path;

    #[test]
    fn what_may_be_said_of_mail() {
        let parse = |text: &str| BrokerConfig::parse(Path::new("/etc/sluice/broker.toml"), text);
        let mail = parse("[mail]\nfrom = \"sluice@example.org\"\nto = [\"*@example.org\"]\n").unwrap().mail.unwrap();
        assert_eq!(
            (mail.sendmail.to_str(), mail.per_hour, mail.per_hour_of_one),
            (Some("/usr/sbin/sendmail"), 200, 20)
        );
        for (text, line, why) in [
            ("[mail]\nfrom = \"sluice\"\nto = []", 2, "no plain address"),
            ("[mail]\nfrom = \"a@b\"\nto = [\"*\"]", 3, "*@HOST"),
            ("[mail]\nfrom = \"a@b\"\nto = []\nsendmail = \"sendmail\"", 4, "whole path"),
            ("[mail]\nfrom = \"a@b\"\nto = []\nper_hour = 0", 4, "mails an hour"),
            ("[mail]\nto = []", 1, "from"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert!(mistake.line == line && mistake.message.contains(why), "{text}: {mistake}");
        }
    }
}
