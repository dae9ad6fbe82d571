//! All soft state: sessions, and the path, reservation and traffic control states of each.
//!
//! The tables are private. A block comes and goes by a typed call ([`State::add_path`], [`State::remove_path`] and so
//! on), which keeps the chains of its session, the indexes, the counts, the limits and the alarm in step. A block
//! itself is read and changed by its number, `state[id]`; its parts that an index or the alarm hangs on are private
//! to this module.
//!
//! | file | contents |
//! |---|---|
//! | `session` `psb` `rsb` `tcsb` `bsb` | the state blocks |
//! | `keys` | their keys |
//! | `matching` | the senders of each reservation: RFC 2205 section 3.1.4 |
//! | `many` `sum` | results that are kept for sessions with many senders |
//! | `port_rules` | sessions and senders that have ports: RFC 2205 section 3.2 |
//! | `heard` | a refresh that repeats the last message byte for byte |
//! | `table` `timers` `pcg` | tables of blocks, their alarms, random numbers |

pub mod blocks;
pub mod bsb;
pub mod heard;
pub mod keys;
mod many;
mod matching;
mod port_rules;
pub mod psb;
pub mod rsb;
pub mod session;
pub mod sum;
pub mod table;
pub mod tcsb;
pub mod timers;

use crate::io::Config;
use crate::lifetime::{jittered, lifetime};
use crate::refusal::Refusal;
use blocks::{Block, Blocks};
use core::ops::{Deref, Index, IndexMut};
use heard::{Heard, Hearing};
use keys::{PsbKey, RsbKey, TcsbKey};
use psb::Psb;
use rsb::Rsb;
use session::SessionState;
use table::BlockId;
use tcsb::Tcsb;
use terms::Rng;
use terms::{SenderTemplate, Session, Span, Time};
use timers::Timers;
use wire::iana::error;

/// The owner of an alarm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// The end of an adoption.
    Session(BlockId<SessionState>),
    /// A path state: expiry, Path refresh, Resv refresh.
    Path(BlockId<Psb>),
    /// A reservation state: expiry.
    Resv(BlockId<Rsb>),
    /// A neighbour: a repetition, a summary, a Hello.
    Neighbour(u32),
    /// Neighbours that have challenged us: the messages that they missed are sent again.
    Again,
    /// Neighbours that get a refresh of all our state there.
    CatchUp,
}

/// All soft state of a node, within the limits of its configuration.
pub(crate) struct State {
    config: Config,
    blocks: Blocks,
    timers: Timers<Timer>,
    heard: Heard,
    hearing: Hearing,
    pcg: Rng,
}

impl Deref for State {
    type Target = Blocks;
    fn deref(&self) -> &Blocks {
        &self.blocks
    }
}

impl<B: Block> Index<BlockId<B>> for State {
    type Output = B;
    #[inline]
    fn index(&self, id: BlockId<B>) -> &B {
        B::of(&self.blocks, id)
    }
}

impl<B: Block> IndexMut<BlockId<B>> for State {
    #[inline]
    fn index_mut(&mut self, id: BlockId<B>) -> &mut B {
        B::of_mut(&mut self.blocks, id)
    }
}

impl State {
    /// No state yet. Jitter and the tables' hashes are derived from `seed`; `chance` gives other random numbers.
    pub fn new(config: Config, seed: u64, chance: &mut impl FnMut() -> u64) -> State {
        let mut pcg = Rng::seeded(seed);
        let mut keys = || (pcg.next_u64(), pcg.next_u64());
        State {
            blocks: Blocks::new(&mut keys, (chance(), chance())),
            timers: Timers::new(),
            heard: Heard::new(keys()),
            hearing: Hearing::new(config.refresh_reduction),
            pcg,
            config,
        }
    }

    /// Empties the tables, and keys their hashes anew.
    pub fn rekey(&mut self, keys: &mut impl FnMut() -> (u64, u64)) {
        let mut each = || keys();
        self.blocks = Blocks::new(&mut each, (0, 0));
        self.heard = Heard::new(keys());
    }

    /// Timing and limits.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The alarms of all parts of the engine.
    pub fn alarms(&mut self) -> &mut Timers<Timer> {
        &mut self.timers
    }

    /// The number of armed alarms.
    pub fn armed(&self) -> usize {
        self.timers.armed()
    }

    /// The time at which the next alarm may be due.
    pub fn wake_at(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The time of a refresh after this one: R, jittered.
    pub fn next_refresh(&mut self, now: Time) -> Time {
        now + jittered(self.config.refresh, &mut self.pcg)
    }

    /// A random span up to `most`.
    pub fn within(&mut self, most: Span) -> Span {
        self.pcg.span_between(Span::ZERO, most)
    }

    /// `L` for state that its sender refreshes every `refresh`.
    pub fn lifetime(&self, refresh: Span) -> Span {
        lifetime(refresh, self.config.keep)
    }

    /// The block of this number, if it has not been taken out.
    #[inline]
    pub fn get_mut<B: Block>(&mut self, id: BlockId<B>) -> Option<&mut B> {
        self.blocks.get_mut(id)
    }

    /// The state of a session that is new.
    ///
    /// # Errors
    /// [`Refusal`]: there are as many as allowed, or its port does not go with those of others (RFC 2205 section 3.2).
    pub fn add_session(&mut self, session: &Session) -> Result<BlockId<SessionState>, Refusal> {
        if self.blocks.mixed_destination_ports(session) {
            return Err(Refusal::code(error::BAD_DSTPORT, 0));
        }
        if self.blocks.counts().0 >= self.config.max_sessions {
            return Err(Refusal::table_full("sessions", self.config.max_sessions));
        }
        Ok(self.blocks.add_session(session))
    }

    /// Forgets a session that has no state left.
    pub fn drop_if_idle(&mut self, id: BlockId<SessionState>) {
        if self.blocks[id].is_idle() {
            let mut gone = self.blocks.take_session(id);
            self.timers.clear(&mut gone.alarm);
        }
    }

    /// Refuses one more path state if there are as many as allowed.
    ///
    /// # Errors
    /// [`Refusal`]: the limit is reached.
    pub fn room_for_path(&self) -> Result<(), Refusal> {
        match self.blocks.counts().1 >= self.config.max_paths {
            true => Err(Refusal::table_full("path states", self.config.max_paths)),
            false => Ok(()),
        }
    }

    /// Refuses `more` reservation states if there would be more than allowed.
    ///
    /// # Errors
    /// [`Refusal`]: the limit is reached.
    pub fn room_for_resvs(&self, more: usize) -> Result<(), Refusal> {
        match self.blocks.counts().2 + more > self.config.max_resvs {
            true => Err(Refusal::table_full("reservation states", self.config.max_resvs)),
            false => Ok(()),
        }
    }

    /// True if there are as many senders without a reservation as allowed.
    pub fn is_crowded(&self) -> bool {
        let (_, paths, resvs) = self.blocks.counts();
        paths.saturating_sub(resvs) >= self.config.max_unreserved
    }

    /// Keeps the path state of a new sender of this session.
    ///
    /// # Errors
    /// [`Refusal`]: the port rules of RFC 2205 section 3.2, or the limit of senders.
    pub fn add_path(
        &mut self,
        sid: BlockId<SessionState>,
        template: &SenderTemplate,
        psb: Psb,
    ) -> Result<BlockId<Psb>, Refusal> {
        if self.blocks.mixed_sender_ports(sid, template) {
            return Err(Refusal::code(error::BAD_SNDPORT, 0));
        }
        self.room_for_sender(sid)?;
        Ok(self.insert_path(sid, template, psb))
    }

    fn insert_path(&mut self, sid: BlockId<SessionState>, template: &SenderTemplate, psb: Psb) -> BlockId<Psb> {
        let id = self.blocks.add_psb((sid, *template, None), psb);
        self.hop_changed(id);
        id
    }

    /// Takes out the path state of a sender.
    pub fn remove_path(&mut self, id: BlockId<Psb>) {
        self.unheard_path(id);
        self.remove_psb(id);
    }

    fn remove_psb(&mut self, id: BlockId<Psb>) -> Psb {
        let mut gone = self.blocks.take_psb(id);
        self.timers.clear(&mut gone.alarm);
        gone
    }

    /// Remembers a path state that packets do not follow, by the interface that its Paths come in by; in the place of
    /// an older one.
    ///
    /// # Errors
    /// [`Refusal`]: there are as many path states as allowed.
    pub fn set_aside(&mut self, key: PsbKey, block: Psb) -> Result<(), Refusal> {
        let aside = match self.blocks.psb(&key) {
            Some(aside) => {
                let alarm = core::mem::take(&mut self.blocks[aside].alarm);
                self.blocks[aside] = Psb { alarm, ..block };
                aside
            }
            None => {
                self.room_for_path()?;
                self.room_for_sender(key.0)?;
                self.blocks.add_psb(key, block)
            }
        };
        self.arm_path(aside);
        Ok(())
    }

    /// Forgets a path state that was only remembered.
    pub fn drop_aside(&mut self, aside: BlockId<Psb>) {
        self.remove_psb(aside);
    }

    /// Makes a path state that was only remembered the one that packets follow.
    pub fn take_up_aside(&mut self, aside: BlockId<Psb>, change: impl FnOnce(&mut Psb)) -> BlockId<Psb> {
        let (sid, template, _) = self.key(aside);
        let mut block = self.remove_psb(aside);
        change(&mut block);
        self.insert_path(sid, &template, block)
    }

    /// Keeps a new reservation state.
    pub fn add_resv(&mut self, key: RsbKey, rsb: Rsb) -> BlockId<Rsb> {
        self.blocks.add_rsb(key, rsb)
    }

    /// Takes out a reservation state.
    pub fn remove_resv(&mut self, id: BlockId<Rsb>) -> Rsb {
        self.unheard_resv(id);
        let mut gone = self.blocks.take_rsb(id);
        self.timers.clear(&mut gone.alarm);
        gone
    }

    /// Keeps the state of a reservation that traffic control has just admitted.
    pub fn add_tcsb(&mut self, key: TcsbKey, block: Tcsb) {
        self.blocks.add_tcsb(key, block);
    }

    /// Takes out the state of a reservation that traffic control is to give up.
    pub fn remove_tcsb(&mut self, id: BlockId<Tcsb>) -> Tcsb {
        self.blocks.take_tcsb(id)
    }

    /// Arms a path state's alarm no later than its next deadline.
    pub fn arm_path(&mut self, id: BlockId<Psb>) {
        let psb = &mut self.blocks[id];
        let at = psb.next_deadline();
        if at != Time::FOREVER {
            self.timers.set_by(&mut psb.alarm, at, Timer::Path(id));
        }
    }

    /// Arms a path state's alarm, which has rung, at its next deadline.
    pub fn rearm_path(&mut self, id: BlockId<Psb>) {
        let psb = &mut self.blocks[id];
        match psb.next_deadline() {
            Time::FOREVER => self.timers.clear(&mut psb.alarm),
            at => self.timers.set(&mut psb.alarm, at, Timer::Path(id)),
        }
    }

    /// Arms a reservation state's alarm no later than its end.
    pub fn arm_resv(&mut self, id: BlockId<Rsb>) {
        let rsb = &mut self.blocks[id];
        self.timers.set_by(&mut rsb.alarm, rsb.expires, Timer::Resv(id));
    }

    /// Arms a reservation state's alarm, which has rung, at its end.
    pub fn rearm_resv(&mut self, id: BlockId<Rsb>) {
        let rsb = &mut self.blocks[id];
        self.timers.set(&mut rsb.alarm, rsb.expires, Timer::Resv(id));
    }

    /// Notes that flows of this session are in the plane from an earlier life of this node, `until` then or later.
    pub fn adopt(&mut self, sid: BlockId<SessionState>, until: Time) {
        let state = &mut self.blocks[sid];
        let until = state.adopted_until.map_or(until, |u| u.max(until));
        state.adopted_until = Some(until);
        self.timers.set(&mut state.alarm, until, Timer::Session(sid));
    }

    /// Ends the adoption of a session.
    pub fn adoption_ends(&mut self, sid: BlockId<SessionState>) {
        let state = &mut self.blocks[sid];
        state.adopted_until = None;
        self.timers.clear(&mut state.alarm);
        self.drop_if_idle(sid);
    }
}
