//! The call of the table of rights for each request; the table is asked before the request is examined.

use booking::policy::rights::Call;
use documents::agent::Request;
use documents::book::PrepareAskDoc;

/// The row of a request. No wildcard: a new request does not compile without a row of the table.
pub(crate) fn call(request: &Request) -> Call {
    match request {
        Request::Hello => Call::Hello,
        Request::Status => Call::Status,
        Request::Doctor => Call::Doctor,
        Request::Sessions(_) => Call::Sessions,
        Request::Senders(_) => Call::Senders,
        Request::Reservations(_) => Call::Reservations,
        Request::Counters => Call::Counters,
        Request::Sender { .. } => Call::Sender,
        Request::SenderGone { .. } => Call::SenderGone,
        Request::Receiver { .. } => Call::Receiver,
        Request::Reserve { .. } => Call::Reserve,
        Request::Priority { .. } => Call::Priority,
        Request::Release { .. } => Call::Release,
        Request::Show { .. } => Call::Show,
        Request::AddStatic { .. } => Call::AddStatic,
        Request::RemoveStatic { .. } => Call::RemoveStatic,
        Request::Statics(_) => Call::Statics,
        Request::ReloadKeys => Call::ReloadKeys,
        Request::Watch => Call::Watch,
        Request::Trace { .. } => Call::Trace,
        Request::BoomerangReserve { .. } => Call::BoomerangReserve,
        Request::BoomerangRelease { .. } => Call::BoomerangRelease,
        Request::BoomerangSessions { .. } => Call::BoomerangSessions,
        Request::BoomerangTrace => Call::BoomerangTrace,
        Request::BookEnquire(_) => Call::BookEnquire,
        Request::BookCreate(_) => Call::BookCreate,
        Request::BookCommit { .. } => Call::BookCommit,
        Request::BookModify { .. } => Call::BookModify,
        Request::BookBind { .. } => Call::BookBind,
        Request::BookCancel { .. } => Call::BookCancel,
        Request::BookPrepare(_) => Call::BookPrepare,
        Request::BookDecide(_) => Call::BookDecide,
        Request::BookPromises(_) => Call::BookPromises,
        Request::BookResolve { .. } => Call::BookResolve,
        Request::BookShow { .. } => Call::BookShow,
        Request::BookHistory { .. } => Call::BookHistory,
        Request::BookFollow { .. } => Call::BookFollow,
        Request::BookAudit(_) => Call::BookAudit,
        Request::Resources { .. } => Call::Resources,
        Request::May { .. } => Call::May,
        Request::SpeakFor { .. } => Call::SpeakFor,
        Request::ShowToken { .. } => Call::ShowToken,
        Request::Links => Call::Links,
        Request::Routes { .. } => Call::Routes,
        Request::Stop => Call::Stop,
    }
}

/// The call that a promise takes the place of.
pub(crate) fn plain(ask: &PrepareAskDoc) -> Call {
    match ask {
        PrepareAskDoc::Create(_) => Call::BookCreate,
        PrepareAskDoc::Hold { .. } => Call::BookCommit,
        PrepareAskDoc::Modify { .. } => Call::BookModify,
        PrepareAskDoc::Bind { .. } => Call::BookBind,
    }
}
