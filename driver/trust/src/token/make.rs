//! Making tokens: by the organisation, by their holders, and by those who approve. None needs a connection.

use super::key::{TokenKey, TokenPublicKey};
use super::limits::{TokenLimits, plain};
use super::{MAX_TOKEN_TEXT, refused, shape};
use crate::error::Error;
use crate::identity::check_name;
use biscuit_auth::builder::{BiscuitBuilder, BlockBuilder, Term};
use biscuit_auth::{Biscuit, ThirdPartyRequest, UnverifiedBiscuit};
use std::collections::HashMap;

/// A grant of an organisation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TokenGrant {
    /// The organisation.
    pub vo: String,
    /// The name of the only holder, with the domain by which the organisation knows it: `anl/alice`.
    pub holder: String,
    /// The holder's groups in the organisation.
    pub groups: Vec<String>,
    /// The limits from the start.
    pub limits: TokenLimits,
    /// Those who must approve; all of them.
    pub approvers: Vec<TokenPublicKey>,
}

/// A token in the hands of its holder: its signatures are not checked.
pub struct HeldToken(UnverifiedBiscuit);

/// A request for an approval: it names the token, and shows nothing of it.
pub struct ApprovalRequest(ThirdPartyRequest);

/// An approval: a block that fits one token only.
pub struct Approval(String);

/// A block of a token, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockText {
    /// Its facts and checks.
    pub source: String,
    /// The number by which this block, and all tokens made of it, can be revoked.
    pub revocation: String,
    /// The key of the third party that made it; `None`: the organisation or a holder.
    pub by: Option<String>,
}

impl HeldToken {
    /// A token of the organisation with this key.
    ///
    /// # Errors
    /// A name or limit cannot be written, or is too long.
    pub fn create(key: &TokenKey, grant: &TokenGrant) -> Result<HeldToken, Error> {
        let wrong = refused("the token cannot be made");
        check_name(&grant.vo)?;
        grant.groups.iter().try_for_each(|group| check_name(group))?;
        plain(&grant.holder)?;
        let text = |text: &str| Term::Str(text.to_owned());
        let values = |all: Vec<(&str, Term)>| all.into_iter().map(|(name, term)| (name.to_owned(), term)).collect();
        let mut block = grant.limits.block()?;
        let mut add = |source: &str, terms: HashMap<String, Term>, key: Option<&TokenPublicKey>| -> Result<(), Error> {
            let keys = key.map(|key| ("key".to_owned(), key.key())).into_iter().collect();
            block = std::mem::take(&mut block).code_with_params(source, terms, keys).map_err(&wrong)?;
            Ok(())
        };
        let names = vec![("vo", text(&grant.vo)), ("holder", text(&grant.holder))];
        add("vo({vo}); check if holder({holder});", values(names), None)?;
        for group in &grant.groups {
            add("group({group});", values(vec![("group", text(group))]), None)?;
        }
        for approver in &grant.approvers {
            add("check if approved(true) trusting {key};", HashMap::new(), Some(approver))?;
        }
        let token =
            BiscuitBuilder::new().root_key_id(key.public().number()).merge(block).build(key.pair()).map_err(&wrong)?;
        shape::content(&token)?;
        let token = token.to_vec().and_then(UnverifiedBiscuit::from).map_err(&wrong)?;
        HeldToken(token).bounded()
    }

    /// Reads a token.
    ///
    /// # Errors
    /// The text is none.
    pub fn parse(text: &str) -> Result<HeldToken, Error> {
        let text = text.trim();
        if text.len() > MAX_TOKEN_TEXT {
            return Err(Error::Misuse("this is no token: it is too long".to_owned()));
        }
        UnverifiedBiscuit::from_base64(text).map(HeldToken).map_err(refused("this is no token"))
    }

    /// The same with one block more, which takes away.
    ///
    /// # Errors
    /// The token is sealed, or becomes too long.
    pub fn attenuate(&self, limits: &TokenLimits) -> Result<HeldToken, Error> {
        if *limits == TokenLimits::default() {
            return Err(Error::Misuse("an attenuation takes something away: give a limit".to_owned()));
        }
        self.with(limits.block()?)
    }

    fn with(&self, block: BlockBuilder) -> Result<HeldToken, Error> {
        self.0.append(block).map(HeldToken).map_err(refused("no block can be added"))?.bounded()
    }

    /// The same token, closed: no block can be added.
    ///
    /// # Errors
    /// It is sealed already.
    pub fn seal(&self) -> Result<HeldToken, Error> {
        self.0.seal().map(HeldToken).map_err(refused("it cannot be sealed"))
    }

    /// A request for an approval of exactly this token.
    ///
    /// # Errors
    /// The token is sealed.
    pub fn request(&self) -> Result<ApprovalRequest, Error> {
        self.0.third_party_request().map(ApprovalRequest).map_err(refused("no approval can be asked for"))
    }

    /// The same with an approval.
    ///
    /// # Errors
    /// The approval is of another token.
    pub fn approved(&self, approval: &Approval) -> Result<HeldToken, Error> {
        let with = self.0.append_third_party_base64(&approval.0);
        with.map(HeldToken).map_err(refused("this approval does not fit this token"))?.bounded()
    }

    /// Its blocks, for people.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn blocks(&self) -> Result<Vec<BlockText>, Error> {
        let keys = self.0.external_public_keys();
        let ids = self.0.revocation_identifiers();
        let block = |(n, (key, id)): (usize, (&Option<biscuit_auth::PublicKey>, &Vec<u8>))| {
            let source = self.0.print_block_source(n).map_err(refused("the token cannot be read"))?;
            let revocation = id.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(BlockText { source, revocation, by: key.map(|key| key.print()) })
        };
        keys.iter().zip(&ids).enumerate().map(block).collect()
    }

    /// Checks its signatures with the key of its organisation.
    ///
    /// # Errors
    /// It is another's, or forged.
    pub fn verify(&self, key: &TokenPublicKey) -> Result<(), Error> {
        let forged = |error| Error::Refused(format!("the signatures do not hold: {error}"));
        let token: Biscuit = self.0.clone().verify(key.key()).map_err(forged)?;
        shape::content(&token).map(drop)
    }

    /// Itself, if it is short enough.
    fn bounded(self) -> Result<HeldToken, Error> {
        if self.text()?.len() > MAX_TOKEN_TEXT {
            return Err(Error::Misuse(format!("the token would be longer than {} bytes", super::MAX_TOKEN)));
        }
        Ok(self)
    }

    /// The token as text.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn text(&self) -> Result<String, Error> {
        self.0.to_base64().map_err(refused("the token cannot be written"))
    }
}

impl ApprovalRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// The text is none.
    pub fn parse(text: &str) -> Result<ApprovalRequest, Error> {
        ThirdPartyRequest::deserialize_base64(text.trim()).map(ApprovalRequest).map_err(refused("this is no request"))
    }

    /// The request as text.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn text(&self) -> Result<String, Error> {
        self.0.serialize_base64().map_err(refused("the request cannot be written"))
    }

    /// Approves, within limits.
    ///
    /// # Errors
    /// A limit cannot be written.
    pub fn approve(self, key: &TokenKey, limits: &TokenLimits) -> Result<Approval, Error> {
        let wrong = refused("the approval cannot be written");
        let block = limits.block()?.code("approved(true);").map_err(&wrong)?;
        let block = self.0.create_block(&key.pair().private(), block).map_err(&wrong)?;
        block.serialize_base64().map(Approval).map_err(&wrong)
    }
}

impl Approval {
    /// Reads an approval; whether it fits a token shows when it is added.
    pub fn parse(text: &str) -> Approval {
        Approval(text.trim().to_owned())
    }

    /// The approval as text.
    pub fn text(&self) -> &str {
        &self.0
    }
}
