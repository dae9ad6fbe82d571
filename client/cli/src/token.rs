//! `sluice token`: tokens of virtual organisations. Each step works offline; nothing is asked of a broker.

use crate::book::times::Calendar;
use crate::complain::Complaint;
use clap::{Args, Subcommand};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terms::Span;
use terms::book::ResourceKind;
use trust::token::{
    Approval, ApprovalRequest, HeldToken, MAX_TOKEN_TEXT, TokenGrant, TokenKey, TokenLimits, TokenPublicKey,
};

/// `sluice token ...`.
#[derive(Subcommand, Debug)]
pub enum TokenCommand {
    /// Make the key of an organisation, or of one who approves: FILE and FILE.pub
    #[command(after_help = "Example:\n  sluice token key atlas.key       prints the line for the policy's [[vo]]")]
    Key {
        /// The file of the private key; it must not exist
        file: PathBuf,
    },
    /// Grant rights to a holder: only the organisation can, with its key
    #[command(
        after_help = "Examples:\n  sluice token create --key atlas.key --vo atlas --holder anl/alice --group physics --out alice.token\n  \
                            sluice token create --key atlas.key --vo atlas --holder anl/alice --at-most 1gbit --until \"2027-06-30\"\n  \
                            sluice token create --key atlas.key --vo atlas --holder anl/alice --approver head.pub    useless until the head approves"
    )]
    Create(CreateArgs),
    /// Take something away from a token, before it is given to a program
    #[command(
        after_help = "Example:\n  sluice token attenuate alice.token --resource 'maui/net/*' --at-most 100mbit --until friday --out job.token"
    )]
    Attenuate {
        /// The token; - for standard input
        token: PathBuf,
        /// The limits that are added.
        #[command(flatten)]
        limits: LimitArgs,
        /// The new token.
        #[command(flatten)]
        out: OutArgs,
    },
    /// Close a token: no block can be added any more
    Seal {
        /// The token; - for standard input
        token: PathBuf,
        /// The new token.
        #[command(flatten)]
        out: OutArgs,
    },
    /// Ask for an approval of a token; the request shows nothing of it
    #[command(
        after_help = "Example, between holder and head:\n  sluice token request alice.token --out alice.request\n  \
                            sluice token approve alice.request --key head.key --until friday --out alice.approval\n  \
                            sluice token add alice.token alice.approval --out approved.token"
    )]
    Request {
        /// The token; - for standard input
        token: PathBuf,
        /// The request.
        #[command(flatten)]
        out: OutArgs,
    },
    /// Approve a request, within limits
    Approve {
        /// The request; - for standard input
        request: PathBuf,
        /// The private key of the one who approves
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// The limits of the approval.
        #[command(flatten)]
        limits: LimitArgs,
        /// The approval.
        #[command(flatten)]
        out: OutArgs,
    },
    /// Add an approval to the token that it was asked for
    Add {
        /// The token
        token: PathBuf,
        /// The approval; - for standard input
        approval: PathBuf,
        /// The new token.
        #[command(flatten)]
        out: OutArgs,
    },
    /// Show the blocks of a token, and the numbers by which they can be revoked
    #[command(after_help = "Example:\n  sluice token show alice.token --key atlas.key.pub\n\n\
                            To revoke a token and all that were made of it, write its number into the file that `revoked` of the policy's [[vo]] names.")]
    Show {
        /// The token; - for standard input
        token: PathBuf,
        /// The public key of its organisation: check the signatures too
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// `sluice token create`.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// The private key of the organisation
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The organisation's name, as policies have it
    #[arg(long, value_name = "NAME")]
    vo: String,
    /// The only holder: the name of their certificate, with their domain where the organisation has several: anl/alice
    #[arg(long, value_name = "NAME")]
    holder: String,
    /// A group of the holder in the organisation; may be repeated
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// The public key of one who must approve; may be repeated
    #[arg(long, value_name = "FILE")]
    approver: Vec<PathBuf>,
    /// The limits from the start.
    #[command(flatten)]
    limits: LimitArgs,
    /// The token.
    #[command(flatten)]
    out: OutArgs,
}

/// Limits.
#[derive(Args, Debug)]
pub struct LimitArgs {
    /// Only these resources: NODE/RESOURCE with at most one *, as in 'maui/net/*'; may be repeated
    #[arg(long, value_name = "PATTERN")]
    resource: Vec<String>,
    /// No more at once: 100mbit; of others cpu=0.5, disk=20mbps, licence=2; may be repeated
    #[arg(long, value_name = "AMOUNT")]
    at_most: Vec<String>,
    /// Nothing that ends later; the token is worth nothing from then on
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// No longer in all
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span)]
    longest: Option<Span>,
    /// Only with this label
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// The time zone of --until [default: the system's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
}

/// The place of what is made.
#[derive(Args, Debug)]
pub struct OutArgs {
    /// A file, readable for you alone [default: standard output]
    #[arg(long, short = 'o', value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(command: &TokenCommand) -> Result<ExitCode, Complaint> {
    match command {
        TokenCommand::Key { file } => key(file)?,
        TokenCommand::Create(args) => create(args)?,
        TokenCommand::Attenuate { token, limits, out } => {
            let less = held(token)?.attenuate(&limits.read()?).map_err(complaint)?;
            out.write(&less.text().map_err(complaint)?)?;
        }
        TokenCommand::Seal { token, out } => {
            let sealed = held(token)?.seal().and_then(|token| token.text()).map_err(complaint)?;
            out.write(&sealed)?;
        }
        TokenCommand::Request { token, out } => {
            let request = held(token)?.request().and_then(|request| request.text()).map_err(complaint)?;
            out.write(&request)?;
        }
        TokenCommand::Approve { request, key, limits, out } => {
            let request = ApprovalRequest::parse(&text(request)?).map_err(complaint)?;
            let key = TokenKey::read(key).map_err(complaint)?;
            out.write(request.approve(&key, &limits.read()?).map_err(complaint)?.text())?;
        }
        TokenCommand::Add { token, approval, out } => {
            let approval = Approval::parse(&text(approval)?);
            let approved = held(token)?.approved(&approval).and_then(|token| token.text()).map_err(complaint)?;
            out.write(&approved)?;
        }
        TokenCommand::Show { token, key, json } => show(token, key.as_deref(), *json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn key(file: &Path) -> Result<(), Complaint> {
    let public = PathBuf::from(format!("{}.pub", file.display()));
    if let Some(there) = [file, &public].into_iter().find(|path| path.exists()) {
        return Err(Complaint::usage(format!(
            "{} is there already: a key that is lost cannot be made again",
            there.display()
        )));
    }
    let key = TokenKey::new();
    key.write(file).and_then(|()| key.public().write(&public)).map_err(complaint)?;
    println!("{}", key.public());
    Ok(())
}

fn create(args: &CreateArgs) -> Result<(), Complaint> {
    let key = TokenKey::read(&args.key).map_err(complaint)?;
    let approvers = args.approver.iter().map(|file| TokenPublicKey::read(file)).collect::<Result<_, _>>();
    let grant = TokenGrant {
        vo: args.vo.clone(),
        holder: args.holder.clone(),
        groups: args.group.clone(),
        limits: args.limits.read()?,
        approvers: approvers.map_err(complaint)?,
    };
    let token = HeldToken::create(&key, &grant).and_then(|token| token.text()).map_err(complaint)?;
    args.out.write(&token)
}

fn show(token: &Path, key: Option<&Path>, as_json: bool) -> Result<(), Complaint> {
    let token = held(token)?;
    let blocks = token.blocks().map_err(complaint)?;
    if let Some(key) = key {
        token.verify(&TokenPublicKey::read(key).map_err(complaint)?).map_err(complaint)?;
    }
    if as_json {
        let rows: Vec<_> = blocks
            .iter()
            .map(|block| json!({"source": block.source, "revocation": block.revocation, "by": block.by}))
            .collect();
        println!("{}", json!({"verified": key.is_some(), "blocks": rows}));
        return Ok(());
    }
    for (n, block) in blocks.iter().enumerate() {
        let by = match (&block.by, n) {
            (Some(key), _) => format!("of the third party {key}"),
            (None, 0) => "of the organisation".to_owned(),
            (None, _) => "of a holder".to_owned(),
        };
        println!("block {n}, {by}; to revoke: {}", block.revocation);
        block.source.lines().for_each(|line| println!("  {line}"));
    }
    match key {
        Some(_) => println!("the signatures hold"),
        None => println!("the signatures were not checked: give the organisation's public key (--key)"),
    }
    Ok(())
}

impl LimitArgs {
    fn read(&self) -> Result<TokenLimits, Complaint> {
        let until = match &self.until {
            Some(text) => {
                let calendar = Calendar::here(self.zone.as_deref()).map_err(Complaint::usage)?;
                Some(calendar.end(text).map_err(Complaint::usage)?.0)
            }
            None => None,
        };
        let at_most = self.at_most.iter().map(|text| amount(text)).collect::<Result<_, _>>()?;
        let (resources, longest, label) = (self.resource.clone(), self.longest, self.label.clone());
        Ok(TokenLimits { resources, at_most, until, longest, label })
    }
}

/// `100mbit`, or `KIND=AMOUNT`.
fn amount(text: &str) -> Result<(ResourceKind, u64), Complaint> {
    let (kind, amount) = match text.split_once('=') {
        None => (ResourceKind::Network, text),
        Some(("net", amount)) => (ResourceKind::Network, amount),
        Some(("cpu", amount)) => (ResourceKind::Cpu, amount),
        Some(("disk", amount)) => (ResourceKind::Disk, amount),
        Some(("licence", amount)) => (ResourceKind::Countable, amount),
        Some((other, _)) => {
            return Err(Complaint::usage(format!("{other:?} is no kind of resource: net, cpu, disk or licence")));
        }
    };
    let amount = agent_service::book::resources::amount(kind, amount).map_err(Complaint::usage)?;
    Ok((kind, amount))
}

impl OutArgs {
    fn write(&self, text: &str) -> Result<(), Complaint> {
        let Some(file) = &self.out else {
            println!("{text}");
            return Ok(());
        };
        let open = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
        open.and_then(|mut open| writeln!(open, "{text}"))
            .map_err(|error| Complaint::world(format!("{}: {error}", file.display())))
    }
}

fn held(file: &Path) -> Result<HeldToken, Complaint> {
    HeldToken::parse(&text(file)?).map_err(complaint)
}

/// The text of a small file, or of the standard input.
pub fn text(file: &Path) -> Result<String, Complaint> {
    let most = 4 * MAX_TOKEN_TEXT as u64;
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(most).read_to_string(&mut text),
        false => std::fs::File::open(file).and_then(|file| file.take(most).read_to_string(&mut text)),
    };
    read.map_err(|error| Complaint::world(format!("{}: {error}", file.display())))?;
    Ok(text.trim().to_owned())
}

fn complaint(error: trust::Error) -> Complaint {
    match error {
        trust::Error::Misuse(_) | trust::Error::Content { .. } => Complaint::usage(error.to_string()),
        trust::Error::Refused(_) => Complaint::refused(error.to_string()),
        trust::Error::File { .. } => Complaint::world(error.to_string()),
    }
}
