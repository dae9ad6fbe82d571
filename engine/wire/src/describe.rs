//! A walk over a message for people and scripts: every object and every field by its RFC name, with typed values.
//!
//! It uses the same decoders as [`Message::parse`], so that both agree on the bytes. A client turns the calls
//! into JSON (or anything else); this crate knows no text format.

use crate::iana::{class, ctype, error, parameter, service};
use crate::intserv::{self, Parameter, ServiceData};
use crate::message::{Bundle, Message};
use crate::object::{Object, Objects};
use crate::objects::{
    AggregateSession, Content, FilterObject, HelloObject, Integrity, MessageIdList, PolicyData, PreemptionPriority,
    decode,
};
use core::net::IpAddr;
use terms::Style;

/// A field's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FieldValue<'a> {
    /// An unsigned integer.
    Number(u64),
    /// A float as on the wire.
    Float(f32),
    /// An address.
    Address(IpAddr),
    /// Bytes that this crate does not interpret.
    Bytes(&'a [u8]),
    /// Text.
    Text(&'a str),
    /// Yes or no.
    Flag(bool),
}

/// A visitor of a message's parts, in order. Lists and records nest; each is closed by one [`Visitor::end`].
pub trait Visitor {
    /// A named value of the current record.
    fn field(&mut self, name: &'static str, value: FieldValue<'_>);
    /// An unnamed value of the current list.
    fn item(&mut self, value: FieldValue<'_>);
    /// A named list begins.
    fn list(&mut self, name: &'static str);
    /// A record begins: named inside a record, unnamed as the next item of a list.
    fn record(&mut self, name: Option<&'static str>);
    /// The innermost list or record ends.
    fn end(&mut self);
}

/// Visits everything in a message: `type`, the common header's fields, and the list `objects` of records with
/// `class`, `class_num`, `ctype`, `length`, `offset` and the record `fields`.
pub fn describe(message: &Message<'_>, to: &mut dyn Visitor) {
    let envelope = message.envelope();
    let header = envelope.header;
    to.field("type", FieldValue::Text(header.kind.name()));
    to.field("Vers", FieldValue::Number(1));
    to.field("Flags", FieldValue::Number(u64::from(header.flags)));
    to.field("Msg_Type", FieldValue::Number(u64::from(header.kind.number())));
    to.field("RSVP_Checksum", FieldValue::Number(u64::from(header.checksum)));
    to.field("Send_TTL", FieldValue::Number(u64::from(header.send_ttl)));
    to.field("RSVP_Length", FieldValue::Number(header.length as u64));
    if let Message::Bundle(bundle) = message {
        return sub_messages(bundle, to);
    }
    describe_objects(envelope.objects, to);
}

/// Visits the list `objects` of a message that is refused, as far as its object headers can be read; false if
/// its common header cannot be.
pub fn describe_refused(bytes: &[u8], to: &mut dyn Visitor) -> bool {
    let Ok((header, objects)) = crate::message::envelope(bytes) else { return false };
    if header.kind == crate::MessageType::Bundle {
        return false;
    }
    to.field("type", FieldValue::Text(header.kind.name()));
    describe_objects(objects, to);
    true
}

fn describe_objects(objects: Objects<'_>, to: &mut dyn Visitor) {
    to.list("objects");
    for object in objects {
        to.record(None);
        describe_object(&object, to);
        to.end();
    }
    to.end();
}

/// The list `messages`: each sub-message as if it came alone, or its error.
fn sub_messages(bundle: &Bundle<'_>, to: &mut dyn Visitor) {
    to.list("messages");
    for bytes in bundle.messages() {
        to.record(None);
        match Message::parse(bytes) {
            // There is no Bundle in a Bundle, so this goes no deeper.
            Ok(message) => describe(&message, to),
            Err(fault) => {
                to.field("refused", FieldValue::Text(fault.what));
                to.field("at", FieldValue::Number(fault.offset as u64));
            }
        }
        to.end();
    }
    to.end();
}

/// Visits one object: the fields of its record.
pub fn describe_object(object: &Object<'_>, to: &mut dyn Visitor) {
    to.field("class", FieldValue::Text(class::name(object.class)));
    to.field("class_num", FieldValue::Number(u64::from(object.class)));
    to.field("ctype", FieldValue::Number(u64::from(object.ctype)));
    to.field("length", FieldValue::Number(object.body.len().saturating_add(crate::object::HEADER) as u64));
    to.field("offset", FieldValue::Number(object.offset as u64));
    to.record(Some("fields"));
    match decode(object) {
        Ok(content) => fields(object, &content, to),
        Err(fault) => quoted(object, fault.what, to),
    }
    to.end();
}

/// An object with an error, quoted in an error message or a tear: the reason, and its readable fields.
fn quoted(object: &Object<'_>, why: &'static str, to: &mut dyn Visitor) {
    to.field("refused", FieldValue::Text(why));
    let integrated = matches!(object.class, class::FLOWSPEC | class::SENDER_TSPEC);
    if integrated && intserv::services(object).is_ok_and(|s| s.count() == 1) {
        each_service(object, &mut |found| one_service(&found, to));
    } else {
        to.field("data", FieldValue::Bytes(object.body));
    }
}

fn fields(object: &Object<'_>, content: &Content<'_>, to: &mut dyn Visitor) {
    match content {
        Content::Session(x) => {
            to.field("DestAddress", FieldValue::Address(x.session.dst));
            number(to, "Protocol_Id", x.session.protocol);
            number(to, "Flags", x.flags);
            number(to, "DstPort", x.session.dst_port);
        }
        Content::AggregateSession(x) => aggregate_session(x, to),
        Content::Aggregator(x) => to.field("Aggregator_Address", FieldValue::Address(*x)),
        Content::Hop(x) => {
            to.field("Hop_Address", FieldValue::Address(x.addr));
            number(to, "LIH", x.lih);
        }
        Content::Integrity(x) => integrity(x, to),
        Content::TimeValues(x) => to.field("Refresh_Period", FieldValue::Number(x.as_millis())),
        Content::ErrorSpec(x) => {
            to.field("Error_Node_Address", FieldValue::Address(x.node));
            number(to, "Flags", x.flags);
            number(to, "Error_Code", x.code);
            number(to, "Error_Value", x.value);
            to.field("InPlace", FieldValue::Flag(x.in_place()));
            to.field("NotGuilty", FieldValue::Flag(x.not_guilty()));
            to.field("meaning", FieldValue::Text(error::name(x.code)));
        }
        Content::Scope(x) => {
            to.list("Src_Addresses");
            x.iter().for_each(|a| to.item(FieldValue::Address(a)));
            to.end();
        }
        Content::Style(x) => style(object, *x, to),
        Content::FlowSpec(_) | Content::SenderTspec(_) => {
            each_service(object, &mut |found| one_service(&found, to));
        }
        Content::Adspec(_) => {
            to.list("fragments");
            each_service(object, &mut |found| {
                to.record(None);
                one_service(&found, to);
                to.end();
            });
            to.end();
        }
        Content::FilterSpec(x) | Content::SenderTemplate(x) => filter(x, to),
        Content::PolicyData(x) => policy(x, to),
        Content::ResvConfirm(x) => to.field("Receiver_Address", FieldValue::Address(*x)),
        Content::UserError(x) => {
            number(to, "Enterprise_Number", x.enterprise);
            number(to, "Sub_Org", x.sub_org);
            number(to, "User_Error_Value", x.value);
            to.field("Error_Description", FieldValue::Text(x.text));
        }
        Content::MessageId(x) => {
            message_id(to, x.flags, x.epoch, x.id);
            to.field("ACK_Desired", FieldValue::Flag(x.ack_desired()));
        }
        Content::MessageIdAck(x) => {
            message_id(to, x.flags, x.epoch, x.id);
            to.field("nack", FieldValue::Flag(x.nack));
        }
        Content::MessageIdList(x) => message_id_list(x, to),
        Content::Hello(x) => hello(x, to),
        Content::Challenge(x) => {
            number(to, "Key_Identifier", x.key_id);
            to.field("Challenge_Cookie", FieldValue::Bytes(x.cookie));
        }
        Content::Null | Content::Unknown => to.field("data", FieldValue::Bytes(object.body)),
    }
}

fn number(to: &mut dyn Visitor, name: &'static str, value: impl Into<u64>) {
    to.field(name, FieldValue::Number(value.into()));
}

fn aggregate_session(x: &AggregateSession, to: &mut dyn Visitor) {
    to.field("DestAddress", FieldValue::Address(x.dst));
    number(to, "Flags", x.flags);
    number(to, "DSCP", x.dscp);
}

fn hello(x: &HelloObject, to: &mut dyn Visitor) {
    to.field("request", FieldValue::Flag(x.request));
    number(to, "Src_Instance", x.src_instance);
    number(to, "Dst_Instance", x.dst_instance);
}

fn message_id(to: &mut dyn Visitor, flags: u8, epoch: u32, id: u32) {
    number(to, "Flags", flags);
    number(to, "Epoch", epoch);
    number(to, "Message_Identifier", id);
}

fn message_id_list(x: &MessageIdList<'_>, to: &mut dyn Visitor) {
    number(to, "Flags", x.flags);
    number(to, "Epoch", x.epoch);
    to.list("Message_Identifiers");
    x.ids().for_each(|id| to.item(FieldValue::Number(u64::from(id))));
    to.end();
}

fn integrity(x: &Integrity<'_>, to: &mut dyn Visitor) {
    number(to, "Flags", x.flags);
    number(to, "Key_Identifier", x.key_id);
    number(to, "Sequence_Number", x.sequence);
    to.field("Keyed_Message_Digest", FieldValue::Bytes(x.digest));
}

fn style(object: &Object<'_>, x: Style, to: &mut dyn Visitor) {
    if let &[flags, a, b, c] = object.body {
        number(to, "Flags", flags);
        number(to, "Option_Vector", u32::from_be_bytes([0, a, b, c]));
    }
    let name = match x {
        Style::Ff => "FF",
        Style::Se => "SE",
        Style::Wf => "WF",
    };
    to.field("style", FieldValue::Text(name));
}

fn filter(x: &FilterObject, to: &mut dyn Visitor) {
    to.field("SrcAddress", FieldValue::Address(x.src()));
    match x {
        FilterObject::Ports(template) => number(to, "SrcPort", template.src_port),
        FilterObject::Gpi(template) => number(to, "GPI", template.src_port),
        FilterObject::FlowLabel { label, .. } => number(to, "Flow_Label", *label),
    }
}

fn policy(x: &PolicyData<'_>, to: &mut dyn Visitor) {
    to.list("options");
    for option in x.options {
        to.record(None);
        number(to, "class_num", option.class);
        number(to, "ctype", option.ctype);
        to.field("data", FieldValue::Bytes(option.body));
        to.end();
    }
    to.end();
    to.list("elements");
    for element in x.elements {
        to.record(None);
        number(to, "P_Type", element.kind);
        match PreemptionPriority::read(&element) {
            Some(x) => {
                number(to, "Flags", x.flags);
                to.field("Preemption_Priority", FieldValue::Number(u64::from(x.preemption)));
                to.field("Defending_Priority", FieldValue::Number(u64::from(x.defending)));
                number(to, "Error_Code", x.error);
            }
            None => to.field("data", FieldValue::Bytes(element.data)),
        }
        to.end();
    }
    to.end();
}

fn each_service(object: &Object<'_>, f: &mut dyn FnMut(ServiceData<'_>)) {
    if object.ctype == ctype::INTSERV {
        intserv::services(object).into_iter().flatten().for_each(f);
    }
}

fn one_service(found: &ServiceData<'_>, to: &mut dyn Visitor) {
    let name = match found.number {
        service::GENERAL => "general",
        service::GUARANTEED => "guaranteed",
        service::CONTROLLED_LOAD => "controlled-load",
        service::NULL => "null",
        _ => "unknown",
    };
    to.field("service", FieldValue::Text(name));
    number(to, "service_number", found.number);
    to.field("break_bit", FieldValue::Flag(found.break_bit));
    let mut strange = false;
    for each in found.parameters() {
        strange |= !known_parameter(&each, to);
    }
    if strange {
        to.list("parameters");
        for each in found.parameters().filter(|p| !known_parameter(p, &mut Nobody)) {
            to.record(None);
            number(to, "number", each.number);
            number(to, "flags", each.flags);
            to.field("data", FieldValue::Bytes(each.value));
            to.end();
        }
        to.end();
    }
}

/// Visits a parameter that has names for its words; false if it has none.
fn known_parameter(each: &Parameter<'_>, to: &mut dyn Visitor) -> bool {
    let float = |bytes: [u8; 4]| FieldValue::Float(f32::from_bits(u32::from_be_bytes(bytes)));
    let word = |bytes: [u8; 4]| FieldValue::Number(u64::from(u32::from_be_bytes(bytes)));
    match (each.number, each.value) {
        (
            parameter::TOKEN_BUCKET_TSPEC,
            &[r0, r1, r2, r3, b0, b1, b2, b3, p0, p1, p2, p3, m0, m1, m2, m3, x0, x1, x2, x3],
        ) => {
            to.field("r", float([r0, r1, r2, r3]));
            to.field("b", float([b0, b1, b2, b3]));
            to.field("p", float([p0, p1, p2, p3]));
            to.field("m", word([m0, m1, m2, m3]));
            to.field("M", word([x0, x1, x2, x3]));
        }
        (parameter::RSPEC, &[r0, r1, r2, r3, s0, s1, s2, s3]) => {
            to.field("R", float([r0, r1, r2, r3]));
            to.field("S", word([s0, s1, s2, s3]));
        }
        (parameter::NULL_SERVICE_TSPEC, &[a, b, c, d]) => to.field("M", word([a, b, c, d])),
        (parameter::PATH_BANDWIDTH, &[a, b, c, d]) => to.field("AVAILABLE_PATH_BANDWIDTH", float([a, b, c, d])),
        (parameter::IS_HOPS, &[a, b, c, d]) => to.field("NUMBER_OF_IS_HOPS", word([a, b, c, d])),
        (parameter::MIN_LATENCY, &[a, b, c, d]) => to.field("MINIMUM_PATH_LATENCY", word([a, b, c, d])),
        (parameter::PATH_MTU, &[a, b, c, d]) => to.field("PATH_MTU", word([a, b, c, d])),
        (parameter::C_TOT, &[a, b, c, d]) => to.field("C_tot", word([a, b, c, d])),
        (parameter::D_TOT, &[a, b, c, d]) => to.field("D_tot", word([a, b, c, d])),
        (parameter::C_SUM, &[a, b, c, d]) => to.field("C_sum", word([a, b, c, d])),
        (parameter::D_SUM, &[a, b, c, d]) => to.field("D_sum", word([a, b, c, d])),
        _ => return false,
    }
    true
}

/// A visitor that ignores everything.
struct Nobody;

impl Visitor for Nobody {
    fn field(&mut self, _: &'static str, _: FieldValue<'_>) {}
    fn item(&mut self, _: FieldValue<'_>) {}
    fn list(&mut self, _: &'static str) {}
    fn record(&mut self, _: Option<&'static str>) {}
    fn end(&mut self) {}
}
