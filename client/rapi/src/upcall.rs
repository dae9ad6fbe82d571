//! An upcall's arguments, as C gets them.

use crate::intserv;
use crate::objects::{ObjectList, form, socket_address};
use documents::agent::{FlowSpecDoc, SenderId, StyleDoc, TspecDoc};
use rsvp_client::Code;
use rsvp_client::session::{ErrorUpcall, SessionUpcall};

/// RSVP's error code for errors of the application interface.
const API_ERROR: u8 = 20;

/// The arguments of an upcall.
#[derive(Debug)]
pub struct Arguments {
    /// The event's number.
    pub event: i32,
    /// The style's number.
    pub style: i32,
    /// Error code and value; 0 where there is no error.
    pub code: i32,
    /// Error value.
    pub value: i32,
    /// The node that found the error, as a `sockaddr`; empty where there is none.
    pub node: Vec<u8>,
    /// Flags of errors.
    pub flags: u32,
    /// The three lists.
    pub filters: ObjectList,
    /// Flowspecs, or Tspecs.
    pub flowspecs: ObjectList,
    /// ADSPECs.
    pub adspecs: ObjectList,
}

/// The number of a style.
pub fn style_number(style: StyleDoc) -> i32 {
    match style {
        StyleDoc::Wf => 1,
        StyleDoc::Ff => 2,
        StyleDoc::Se => 3,
    }
}

/// Writes lists in one of the two families of formats.
struct Writer {
    intserv: bool,
    gpi: bool,
    made: Arguments,
}

impl Writer {
    fn filter(&mut self, sender: &SenderId) {
        self.made.filters.add_filter(sender, self.gpi);
    }

    fn flowspec(&mut self, flowspec: &FlowSpecDoc) {
        match self.intserv {
            true => self.made.flowspecs.add(form::FLOWSPEC_INTSERV, &intserv::flowspec_body(flowspec)),
            false => self.made.flowspecs.add_flowspec(flowspec),
        }
    }

    fn tspec(&mut self, tspec: &TspecDoc) {
        match self.intserv {
            true => self.made.flowspecs.add(form::TSPEC_INTSERV, &intserv::tspec_body(tspec)),
            false => self.made.flowspecs.add_tspec(tspec),
        }
    }

    fn error(&mut self, error: &ErrorUpcall) {
        self.made.style = style_number(error.style);
        self.made.code = error.code.into();
        self.made.value = match (error.code, error.value) {
            // The agent's own values, in RAPI's numbers.
            (API_ERROR, 1) if error.resv => 19,
            (API_ERROR, 1) => 18,
            (API_ERROR, 3) => Code::NFfs as i32,
            (_, value) => value.into(),
        };
        self.made.node = socket_address(error.node, 0);
        self.made.flags = u32::from(error.in_place) | u32::from(error.not_guilty) << 1;
        for sender in &error.senders {
            self.filter(sender);
        }
        if let Some(flowspec) = &error.flowspec {
            self.flowspec(flowspec);
        }
        if let Some(tspec) = &error.tspec {
            self.tspec(tspec);
        }
    }
}

/// The arguments of an upcall: `intserv` chooses the formats, `gpi` that of filters.
pub fn arguments(upcall: &SessionUpcall, intserv_formats: bool, gpi: bool) -> Arguments {
    let lists = (ObjectList::default(), ObjectList::default(), ObjectList::default());
    let (event, code, value, flags, node) = (1, 0, 0, 0, Vec::new());
    let style = style_number(StyleDoc::Ff);
    let (filters, flowspecs, adspecs) = lists;
    let made = Arguments { event, style, code, value, node, flags, filters, flowspecs, adspecs };
    let mut writer = Writer { intserv: intserv_formats, gpi, made };
    match upcall {
        SessionUpcall::Path(senders) => {
            for known in senders {
                writer.filter(&known.sender);
                writer.tspec(&known.tspec);
                match &known.adspec {
                    None => writer.made.adspecs.add(form::EMPTY, &[]),
                    Some(adspec) if intserv_formats => {
                        writer.made.adspecs.add(form::ADSPEC_INTSERV, &intserv::adspec_body(adspec));
                    }
                    Some(adspec) => writer.made.adspecs.add_adspec(adspec),
                }
            }
        }
        SessionUpcall::Resv { sender, style, flowspec } => {
            writer.made.event = 2;
            writer.made.style = style_number(*style);
            writer.filter(sender);
            if let Some(flowspec) = flowspec {
                writer.flowspec(flowspec);
            }
        }
        SessionUpcall::Confirm { sender, style, flowspec } => {
            writer.made.event = 5;
            writer.made.style = style_number(*style);
            writer.filter(sender);
            writer.flowspec(flowspec);
        }
        SessionUpcall::Error(error) => {
            writer.made.event = if error.resv { 4 } else { 3 };
            writer.error(error);
        }
    }
    writer.made
}
