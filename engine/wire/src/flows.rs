//! Flow descriptor lists: RFC 2205 section 3.1.4. They come after STYLE, at the end of the message, and their order
//! has meaning: in FF style a FILTER_SPEC without a FLOWSPEC of its own takes the one before it.

use crate::MalformedMessage;
use crate::iana::{class, ctype};
use crate::intserv;
use crate::object::{Object, Objects};
use crate::objects::{Content, FilterObject, decode};
use terms::{FlowSpec, Style};

/// A FLOWSPEC.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowDescriptor<'a> {
    /// The object as it came, to be returned or forwarded unchanged.
    pub object: Object<'a>,
    /// The service number; 0 for an unreadable object (error messages quote the faulty one).
    pub service: u8,
    /// The request; `None`: an unknown service (answer code 21, value 2), or unreadable in an error message.
    pub spec: Option<FlowSpec>,
}

/// One flow descriptor of a message that may leave the FLOWSPEC out (ResvErr, ResvTear).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Descriptor<'a> {
    /// The sender; `None`: all senders (WF).
    pub filter: Option<FilterObject>,
    /// The FLOWSPEC, if there is one.
    pub flow: Option<FlowDescriptor<'a>>,
}

/// One flow descriptor of a Resv or a ResvConf.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reserved<'a> {
    /// The sender; `None`: all senders (WF).
    pub filter: Option<FilterObject>,
    /// The FLOWSPEC; in SE style the same for all, in FF style inherited if it was left out.
    pub flow: FlowDescriptor<'a>,
}

/// The flow descriptors of a message, in order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Descriptors<'a> {
    objects: Objects<'a>,
    style: Style,
    flow: Option<FlowDescriptor<'a>>,
    wild: bool,
}

impl<'a> FlowDescriptor<'a> {
    pub(crate) fn decode(object: &Object<'a>) -> Result<FlowDescriptor<'a>, MalformedMessage> {
        if object.ctype != ctype::INTSERV {
            let (code, value) = (crate::iana::error::UNKNOWN_CTYPE, object.class_and_ctype());
            return Err(MalformedMessage::answered("unknown C-Type", object.offset, code, value));
        }
        let (service, spec) = intserv::flowspec(object)?;
        Ok(FlowDescriptor { object: *object, service, spec })
    }

    /// A FLOWSPEC that a message quotes: never refused.
    pub(crate) fn quoted(object: &Object<'a>) -> FlowDescriptor<'a> {
        FlowDescriptor::decode(object).unwrap_or(FlowDescriptor { object: *object, service: 0, spec: None })
    }
}

impl<'a> Descriptors<'a> {
    /// The flow descriptors in the objects after STYLE.
    pub(crate) fn new(objects: Objects<'a>, style: Style) -> Descriptors<'a> {
        Descriptors { objects, style, flow: None, wild: style == Style::Wf }
    }

    /// The descriptors with a FLOWSPEC: all of them, in a message that must have one.
    pub(crate) fn reserved(self) -> impl Iterator<Item = Reserved<'a>> + Clone {
        self.filter_map(|d| d.flow.map(|flow| Reserved { filter: d.filter, flow }))
    }
}

impl<'a> Iterator for Descriptors<'a> {
    type Item = Descriptor<'a>;

    fn next(&mut self) -> Option<Descriptor<'a>> {
        for object in self.objects.by_ref() {
            if object.class == class::FLOWSPEC {
                self.flow = Some(FlowDescriptor::quoted(&object));
                continue;
            }
            if let Ok(Content::FilterSpec(filter)) = decode_filter(&object) {
                return Some(Descriptor { filter: Some(filter), flow: self.flow });
            }
        }
        if core::mem::take(&mut self.wild) {
            return Some(Descriptor { filter: None, flow: self.flow });
        }
        None
    }
}

fn decode_filter<'a>(object: &Object<'a>) -> Result<Content<'a>, MalformedMessage> {
    if object.class == class::FILTER_SPEC { decode(object) } else { Ok(Content::Unknown) }
}

/// Checks a flow descriptor list against the BNF of its style, object by object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grammar {
    pub(crate) style: Style,
    /// True if a FLOWSPEC is mandatory (Resv, ResvConf).
    pub(crate) needs_flowspec: bool,
    /// True if a FILTER_SPEC is mandatory in FF and SE (all but ResvErr).
    pub(crate) needs_filter: bool,
    flowspecs: usize,
    filters: usize,
    open: bool,
}

impl Grammar {
    pub(crate) fn new(style: Style, needs_flowspec: bool, needs_filter: bool) -> Grammar {
        Grammar { style, needs_flowspec, needs_filter, flowspecs: 0, filters: 0, open: false }
    }

    /// Checks the next FLOWSPEC.
    pub(crate) fn flowspec(&mut self) -> Result<(), &'static str> {
        match self.style {
            Style::Ff if self.open => return Err("FLOWSPEC is not followed by a FILTER_SPEC"),
            Style::Se if self.flowspecs > 0 => return Err("more than one FLOWSPEC in SE style"),
            Style::Se if self.filters > 0 => return Err("FLOWSPEC after a FILTER_SPEC in SE style"),
            Style::Wf if self.flowspecs > 0 => return Err("more than one FLOWSPEC in WF style"),
            _ => {}
        }
        self.flowspecs = self.flowspecs.saturating_add(1);
        self.open = true;
        Ok(())
    }

    /// Checks the next FILTER_SPEC.
    pub(crate) fn filter(&mut self) -> Result<(), &'static str> {
        if self.style == Style::Wf {
            return Err("FILTER_SPEC in WF style");
        }
        if self.flowspecs == 0 && self.needs_flowspec {
            return Err("FILTER_SPEC before any FLOWSPEC");
        }
        self.filters = self.filters.saturating_add(1);
        self.open = false;
        Ok(())
    }

    /// Checks the end of the list.
    pub(crate) fn end(&self) -> Result<(), &'static str> {
        if self.flowspecs == 0 && self.needs_flowspec {
            return Err("no FLOWSPEC");
        }
        if self.style == Style::Wf {
            return Ok(());
        }
        if self.open && self.needs_filter {
            return Err("FLOWSPEC is not followed by a FILTER_SPEC");
        }
        if self.filters == 0 && self.needs_filter { Err("no FILTER_SPEC") } else { Ok(()) }
    }
}
