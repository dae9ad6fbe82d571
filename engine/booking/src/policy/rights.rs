//! The table of rights: which caller may make which call, on every interface. Default deny; the page
//! `docs/rights.md` is this table.
//!
//! A row is a call and the owner of its object; a column is the caller's role and way of connecting. A cell
//! is no, yes, or as far as a rule of the policy file allows. Every call of the agent's socket and every
//! route of the broker is a [`Call`]; one without a row does not compile.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use terms::book::Caller;

/// The caller's role, and the way of connecting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Seat {
    /// This machine: root, and the user that runs agent or broker.
    Root,
    /// This machine: members of the operators' group.
    Operator,
    /// This machine: all other users that the socket admits.
    Member,
    /// A certificate of the role requester, or an owner for whom a broker speaks.
    Requester,
    /// A certificate of the role auditor, or an auditor for whom a broker speaks.
    Auditor,
    /// A certificate of the role operator, or an operator for whom a broker speaks.
    FarOperator,
    /// A certificate of the role agent.
    Agent,
    /// A certificate of the role broker, while it speaks for no caller.
    Broker,
}

impl Seat {
    /// All seats, in the order of the columns.
    pub const ALL: [Seat; 8] = [
        Seat::Root,
        Seat::Operator,
        Seat::Member,
        Seat::Requester,
        Seat::Auditor,
        Seat::FarOperator,
        Seat::Agent,
        Seat::Broker,
    ];

    /// The column's head; a role by certificate has a capital letter.
    pub fn name(self) -> &'static str {
        match self {
            Seat::Root => "root",
            Seat::Operator => "operator",
            Seat::Member => "member",
            Seat::Requester => "Requester",
            Seat::Auditor => "Auditor",
            Seat::FarOperator => "Operator",
            Seat::Agent => "Agent",
            Seat::Broker => "Broker",
        }
    }

    /// A phrase for several such callers.
    fn words(self) -> &'static str {
        match self {
            Seat::Root => "root",
            Seat::Operator => "the operators' group",
            Seat::Member => "users of this machine",
            Seat::Requester => "requesters",
            Seat::Auditor => "auditors",
            Seat::FarOperator => "operators by certificate",
            Seat::Agent => "agents",
            Seat::Broker => "brokers",
        }
    }

    /// True if the caller came from another machine, or through a broker.
    pub fn is_far(self) -> bool {
        self >= Seat::Requester
    }
}

/// The content of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Refused.
    No,
    /// Allowed.
    Yes,
    /// As far as the policy file allows.
    Rule,
}

impl Right {
    /// The cell's text on the page.
    pub fn name(self) -> &'static str {
        match self {
            Right::No => "-",
            Right::Yes => "yes",
            Right::Rule => "rule",
        }
    }
}

/// The owner of a call's object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The object has no particular owner.
    Any,
    /// The caller's own.
    Own,
    /// Another owner's.
    Others,
}

impl Whose {
    /// The row's text on the page.
    pub fn name(self) -> &'static str {
        match self {
            Whose::Any => "",
            Whose::Own => "own",
            Whose::Others => "others'",
        }
    }
}

/// A row: the owner of the object, and one cell for each column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RightsRow {
    /// The owner of the object.
    pub whose: Whose,
    /// The cells, in the order of [`Seat::ALL`].
    pub rights: [Right; 8],
}

macro_rules! calls {
    ($($variant:ident $name:literal)*) => {
        /// A call of the agent's socket, or a route of the broker.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Call {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl Call {
            /// All calls, in the order of the page.
            pub const ALL: &'static [Call] = &[$(Call::$variant),*];

            /// The call's name for users: `book_create`, `GET /v1/resources`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Call::$variant => $name,)*
                }
            }
        }
    };
}

calls! {
    Hello "hello"
    Resources "resources"
    Links "links"
    Routes "routes"
    May "may"
    Status "status"
    Doctor "doctor"
    Sessions "sessions"
    Senders "senders"
    Reservations "reservations"
    Counters "counters"
    Show "show"
    Statics "statics"
    BoomerangSessions "boomerang_sessions"
    Watch "watch"
    Sender "sender"
    Receiver "receiver"
    Reserve "reserve"
    Priority "priority"
    SenderGone "sender_gone"
    Release "release"
    BoomerangReserve "boomerang_reserve"
    BoomerangRelease "boomerang_release"
    BookEnquire "book_enquire"
    BookCreate "book_create"
    BookCommit "book_commit"
    BookModify "book_modify"
    BookBind "book_bind"
    BookCancel "book_cancel"
    BookPrepare "book_prepare"
    BookDecide "book_decide"
    BookPromises "book_promises"
    BookResolve "book_resolve"
    BookShow "book_show"
    BookHistory "book_history"
    BookFollow "book_follow"
    BookAudit "book_audit"
    SpeakFor "speak_for"
    ShowToken "show_token"
    AddStatic "add_static"
    RemoveStatic "remove_static"
    Trace "trace"
    BoomerangTrace "boomerang_trace"
    ReloadKeys "reload_keys"
    Stop "stop"
    GetOpenapi "GET /openapi.json"
    GetResources "GET /v1/resources"
    GetPaths "GET /v1/paths"
    GetTopology "GET /v1/topology"
    GetMay "GET /v1/may"
    PostEnquiry "POST /v1/enquiries"
    PostReservation "POST /v1/reservations"
    GetReservations "GET /v1/reservations"
    GetReservation "GET /v1/reservations/{id}"
    PatchReservation "PATCH /v1/reservations/{id}"
    DeleteReservation "DELETE /v1/reservations/{id}"
    PostBind "POST /v1/reservations/{id}/bind"
    PostCommit "POST /v1/reservations/{id}/commit"
    GetHistory "GET /v1/reservations/{id}/history"
    GetMeasured "GET /v1/reservations/{id}/measured"
    GetCalendar "GET /v1/calendar.ics"
    GetEvents "GET /v1/events"
    GetTransaction "GET /v1/transactions/{id}"
    PutTransaction "PUT /v1/transactions/{id}"
    PostLeg "POST /v1/legs"
    GetLeg "GET /v1/legs/{id}"
    DeleteLeg "DELETE /v1/legs/{id}"
    GetAcceptances "GET /v1/acceptances"
    GetMe "GET /v1/me"
    PostTicket "POST /v1/tickets"
    GetAgents "GET /v1/agents"
    GetMap "GET /v1/map"
    GetInterfaces "GET /v1/interfaces"
    GetAudit "GET /v1/audit"
    GetSignalled "GET /v1/signalled"
    GetDoctor "GET /v1/doctor"
    GetMetrics "GET /metrics"
    GetReadings "GET /v1/readings"
    PutReading "PUT /v1/readings/{name}"
    GetWebhooks "GET /v1/webhooks"
    PostWebhook "POST /v1/webhooks"
    DeleteWebhook "DELETE /v1/webhooks/{id}"
    ForUser "header Sluice-For"
}

const fn any(cells: &str) -> [RightsRow; 1] {
    [RightsRow { whose: Whose::Any, rights: read(cells) }]
}

const fn own(cells: &str) -> [RightsRow; 1] {
    [RightsRow { whose: Whose::Own, rights: read(cells) }]
}

const fn by_owner(own: &str, others: &str) -> [RightsRow; 2] {
    [RightsRow { whose: Whose::Own, rights: read(own) }, RightsRow { whose: Whose::Others, rights: read(others) }]
}

/// Eight cells: `-`, `y` or `r`.
const fn read(cells: &str) -> [Right; 8] {
    let bytes = cells.as_bytes();
    let (mut rights, mut at, mut n) = ([Right::No; 8], 0, 0);
    while at < bytes.len() {
        if bytes[at] != b' ' {
            rights[n] = match bytes[at] {
                b'-' => Right::No,
                b'y' => Right::Yes,
                b'r' => Right::Rule,
                _ => panic!("a cell is -, y or r"),
            };
            n += 1;
        }
        at += 1;
    }
    assert!(n == 8, "a row has eight cells");
    rights
}

/// For all callers: identity of the service, and its calls.
const OPEN: &[RightsRow] = &any("yyy yyyyy");
/// The resources and paths that can be reserved.
const OFFER: &[RightsRow] = &any("yyy yyy--");
/// Tables of signalled sessions and reservations: for callers that may see everything.
const TABLES: &[RightsRow] = &any("yyr -yy--");
/// Signalling is for this host's own addresses: no caller from another machine may do it.
const SIGNAL: &[RightsRow] = &any("yyr -----");
/// The reservations of others, the configuration, and messages as they are on the wire.
const SYSTEM: &[RightsRow] = &any("yy- -----");
/// Asks policy again, changes nothing.
const ENQUIRE: &[RightsRow] = &any("rrr rrr--");
/// Asks policy again, and changes something.
const RESERVE: &[RightsRow] = &any("rrr r-r--");
/// As [`RESERVE`], for one reservation.
const CHANGE: &[RightsRow] = &by_owner("rrr r-r--", "rr- --r--");
/// Gives something back.
const GIVE_BACK: &[RightsRow] = &by_owner("yyy y-y--", "yy- --y--");
/// Reads a reservation.
const READ: &[RightsRow] = &by_owner("yyy yyy--", "yy- -yy--");
impl Call {
    /// The call's rows of the table.
    pub fn rows(self) -> &'static [RightsRow] {
        match self {
            Call::Hello | Call::GetOpenapi => OPEN,
            Call::Resources | Call::GetResources | Call::GetPaths => OFFER,
            Call::GetMe | Call::GetAgents | Call::GetMap | Call::PostTicket => OFFER,
            // What domains publish of themselves is for all brokers that the gate lets in.
            Call::GetTopology => const { &any("yyy yyy-y") },
            // A broker asks this as itself, so that it finds ways over partners' agents too.
            Call::Links | Call::Routes => const { &any("yyy yyy-r") },
            Call::May | Call::GetMay => const { &by_owner("yyy yyy--", "yyr ryy--") },
            Call::Status
            | Call::Doctor
            | Call::Sessions
            | Call::Senders
            | Call::Reservations
            | Call::Counters
            | Call::Show
            | Call::Statics
            | Call::BoomerangSessions
            | Call::Watch => TABLES,
            Call::Sender | Call::Receiver | Call::Reserve | Call::Priority => SIGNAL,
            Call::SenderGone | Call::Release => const { &own("yyy -----") },
            Call::BoomerangReserve => const { &by_owner("yyr -----", "yy- -----") },
            Call::BoomerangRelease => const { &by_owner("yyy -----", "yy- -----") },
            Call::BookEnquire | Call::PostEnquiry => ENQUIRE,
            Call::BookCreate | Call::PostReservation => RESERVE,
            // A broker that speaks for no caller may finish its work: its own is any reservation over several
            // agents of people of its domain.
            Call::BookCommit => const { &by_owner("rrr r-r-r", "rr- --r--") },
            Call::BookCancel => const { &by_owner("yyy y-y-r", "yy- --y--") },
            Call::BookShow | Call::BookHistory => const { &by_owner("yyy yyy-r", "yy- -yy--") },
            Call::BookModify | Call::BookBind => CHANGE,
            Call::PatchReservation | Call::PostBind | Call::PostCommit => CHANGE,
            Call::DeleteReservation | Call::DeleteWebhook => GIVE_BACK,
            Call::BookFollow => READ,
            // Of the connection itself, whomever it speaks for: only who may speak for others coordinates.
            Call::BookPrepare | Call::BookDecide | Call::BookPromises => const { &any("y-- ----r") },
            Call::BookResolve => const { &any("yy- --y--") },
            Call::GetAcceptances => READ,
            Call::GetReservations | Call::GetReservation | Call::GetHistory | Call::GetEvents => READ,
            Call::GetMeasured | Call::GetCalendar | Call::GetReadings => READ,
            Call::BookAudit => const { &any("yyr ryy--") },
            Call::GetInterfaces | Call::GetSignalled | Call::GetDoctor | Call::GetMetrics => {
                const { &any("yy- -yy--") }
            }
            Call::GetAudit => const { &any("yyr ryy--") },
            Call::SpeakFor => const { &any("y-- ----r") },
            Call::ShowToken => const { &any("yyy yyy--") },
            Call::AddStatic
            | Call::RemoveStatic
            | Call::Trace
            | Call::BoomerangTrace
            | Call::ReloadKeys
            | Call::Stop => SYSTEM,
            // Agents and neighbours' brokers: of transactions that they are members of.
            Call::GetTransaction => const { &any("yy- --yyr") },
            // Brokers of neighbouring domains: their own transactions and legs.
            Call::PostLeg | Call::PutTransaction => const { &any("--- ----r") },
            Call::GetLeg | Call::DeleteLeg => const { &by_owner("--- ----r", "--- -----") },
            Call::GetWebhooks => const { &own("yyy yyy--") },
            // Whom the broker's file names as `speakers`.
            Call::ForUser => const { &any("yrr -----") },
            // An auditor reads, and has nothing sent anywhere.
            Call::PostWebhook | Call::PutReading => const { &own("yyy y-y--") },
        }
    }

    /// True if the right is that of the connection itself, whomever it speaks for.
    pub fn is_of_peer(self) -> bool {
        matches!(self, Call::SpeakFor | Call::BookPrepare | Call::BookDecide | Call::BookPromises)
    }

    /// True if a request of this kind may be made for another user of a broker's machine: those by
    /// which a scheduler reserves for a job, and gives it back.
    pub fn is_for_users(self) -> bool {
        use Call::{DeleteReservation, GetMe, GetReservation, GetReservations, PostCommit, PostReservation};
        matches!(self, PostReservation | PostCommit | GetReservations | GetReservation | DeleteReservation | GetMe)
    }

    /// True if the rule is the policy's list of `auditors`: the call reads, and names no amount.
    pub fn is_for_auditors(self) -> bool {
        self == Call::BookAudit || self.rows() == TABLES
    }

    /// True if the rule is the policy's list of `brokers`, for a caller in this seat.
    pub fn is_for_brokers(self, seat: Seat) -> bool {
        seat == Seat::Broker && self.at_most(seat) == Right::Rule
    }

    /// The cell for a caller in this seat and an object of this owner.
    pub fn right(self, seat: Seat, whose: Whose) -> Right {
        let row = self.rows().iter().find(|row| row.whose == whose);
        row.map_or(Right::No, |row| row.rights[seat as usize])
    }

    /// The best cell in the seat's column: the answer before the owner of the object is known.
    pub fn at_most(self, seat: Seat) -> Right {
        let cells = || self.rows().iter().map(|row| row.rights[seat as usize]);
        match (cells().any(|cell| cell == Right::Yes), cells().any(|cell| cell == Right::Rule)) {
            (true, _) => Right::Yes,
            (false, true) => Right::Rule,
            (false, false) => Right::No,
        }
    }

    /// The text of a refusal: the caller's identity, and the callers that may.
    pub fn refusal(self, seat: Seat, whose: Whose, caller: &Caller) -> String {
        let of = |row: &&RightsRow| whose == Whose::Any || row.whose == whose;
        let rows: Vec<&RightsRow> = self.rows().iter().filter(of).collect();
        let may = |seat: &&Seat| rows.iter().any(|row| row.rights[**seat as usize] != Right::No);
        let who: Vec<&str> = Seat::ALL.iter().filter(may).map(|seat| seat.words()).collect();
        let things = if whose == Whose::Others { " of what is somebody else's" } else { "" };
        let only_here = seat.is_far() && !Seat::ALL.iter().filter(may).any(|seat| seat.is_far());
        let place = if only_here { ", on the agent's own socket" } else { "" };
        let who = if who.is_empty() { String::from("nobody") } else { who.join(", ") };
        format!("{}{things} is for {who}{place}; you are {}", self.name(), seated(seat, caller))
    }
}

/// A caller's identity for people: name, groups, and way of connecting.
pub fn seated(seat: Seat, caller: &Caller) -> String {
    let place = match seat {
        Seat::Root | Seat::Operator | Seat::Member => "on this machine",
        _ => "by certificate",
    };
    format!("{}, {} {place}", named(caller), seat.name().to_lowercase())
}

/// A caller's name and groups: `uid:1000 (groups gid:1000, gid:27)`.
pub fn named(caller: &Caller) -> String {
    match caller.groups.is_empty() {
        true => format!("{} (no groups)", caller.name),
        false => format!("{} (groups {})", caller.name, caller.groups.join(", ")),
    }
}
