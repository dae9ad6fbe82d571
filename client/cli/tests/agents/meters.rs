//! Three-colour meters on real packets: of a booking, and of an agreement with another domain. What is seen behind the edge is
//! what the engine's meter says of the packets that were seen in front of it, at the kernel's own time stamps; also while no
//! agent runs, and under the next one.

use crate::bed::{Bed, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{
    AskDoc, BackgroundDoc, BindingDoc, ColorsDoc, FlowDoc, MeterDoc, PartDoc, ReservationDoc, WhenDoc,
};
use linux::capture::{Capture, CapturedFrame};
use linux::clock::Clock;
use rpc::client::Client;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};
use terms::{Bytes, Dscp, Rate, Span, Time};
use traffic::meter::{AfClass, Color, Marker, TokenCounts, TrTcm};

const PORT: u16 = 5004;
/// Of the packets that are sent, IP bytes.
const LENGTH: usize = 1_000;
const AF1: Marker = Marker::af(AfClass::new(1).unwrap());

/// A host, the edge of its domain and where its packets go. The edge has an agreement with the host's domain if `sla`.
fn edge(name: &str, sla: bool) -> TestbedFile {
    let agreement = "settings = \"\"\"\n[[sla]]\npeer = \"anl\"\ninterface = \"to-host\"\nrate = \"6mbit\"\n\
                     background = \"90%\"\nmeter = \"trtcm,peak=4mbit,peak-burst=20kb,burst=10kb,aware,mark-red\"\n\"\"\"\n";
    let (settings, role) = if sla { (agreement, "role = \"peer\"\n") } else { ("", "") };
    let text = format!(
        "name = \"{name}\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"far\"\nkind = \"host\"\n\
         [[node]]\nname = \"edge\"\nkind = \"router\"\n{settings}\
         [[link]]\nbetween = [\"host\", \"edge\"]\nrate = \"40mbit\"\n{role}\
         [[link]]\nbetween = [\"edge\", \"far\"]\nrate = \"40mbit\"\n\
         core = {{ premium = \"16mbit\", background = \"12mbit\" }}\n"
    );
    TestbedFile { keys: false, ..TestbedFile::parse(Path::new("edge.toml"), &text).unwrap() }
}

fn reservation(client: &mut Client, request: Request) -> ReservationDoc {
    match client.call(request).unwrap() {
        Answer::Book(BookAnswer::Reservation(doc)) => doc,
        other => panic!("{other:?}"),
    }
}

fn shown(client: &mut Client, handle: &str) -> ReservationDoc {
    reservation(client, Request::BookShow { handle: Some(handle.to_owned()), filter: Default::default() })
}

fn in_force(client: &mut Client, handle: &str) -> ReservationDoc {
    wait_for("in force", || {
        let doc = shown(client, handle);
        (doc.parts[0].enforced == "in_force").then_some(doc)
    })
}

fn part(resource: &str, rate: u64, meter: Option<&str>) -> PartDoc {
    let background = Some(BackgroundDoc { weight: 1, floor: 0.0 });
    let meter = meter.map(|text| MeterDoc::parse(text).unwrap());
    PartDoc { resource: resource.into(), rate: Some(rate), background, meter, ..PartDoc::default() }
}

fn ask(part: PartDoc) -> AskDoc {
    AskDoc { parts: vec![part], when: WhenDoc::lasting(600.0), ..AskDoc::default() }
}

fn dscp(frame: &CapturedFrame) -> Dscp {
    Dscp(frame.head()[1] >> 2)
}

/// Everything that has come.
fn all(capture: &mut Capture) -> Vec<CapturedFrame> {
    let mut frames = Vec::new();
    while let Some(frame) = capture.next(Span::from_millis(300)).unwrap() {
        frames.push(frame);
    }
    assert_eq!(capture.overrun().unwrap(), 0, "the capture missed packets");
    frames
}

/// Packets at this rate for so long, with the code points of `marks` in turn; while they are under way `meanwhile` is done.
/// What was seen in front of the edge, and behind it.
fn send(bed: &Bed, bps: f64, seconds: f64, marks: &[Dscp], meanwhile: impl FnOnce()) -> [Vec<CapturedFrame>; 2] {
    let capture = |node: &str, interface: &str| {
        bed.netns(node).run(|| Capture::udp_to(interface, PORT, Clock::start()).unwrap()).unwrap()
    };
    let mut before = capture("edge", "to-host");
    let mut behind = capture("far", "to-edge");
    let (host, far) = (bed.netns("host"), bed.netns("far"));
    let _open = far.run(|| UdpSocket::bind(("10.0.1.2", PORT)).unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = |_: &Dscp| {
                let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
                socket.connect(("10.0.1.2", PORT)).unwrap();
                socket
            };
            let sockets: Vec<UdpSocket> = host.run(|| marks.iter().map(sender).collect()).unwrap();
            for (socket, mark) in sockets.iter().zip(marks) {
                rustix::net::sockopt::set_ip_tos(socket, mark.0 << 2).unwrap();
            }
            let (gap, began) = ((LENGTH * 8) as f64 / bps, Instant::now());
            let mut n = 0_u32;
            while f64::from(n) * gap < seconds {
                let due = began + Duration::from_secs_f64(f64::from(n) * gap);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                sockets[n as usize % sockets.len()].send(&[0; LENGTH - 28]).unwrap();
                n += 1;
            }
        });
        meanwhile();
    });
    [all(&mut before), all(&mut behind)]
}

/// The engine's meter beside the kernel's.
struct Engine {
    meter: TrTcm,
    credit: TokenCounts,
    aware: bool,
    colors: [usize; 3],
}

impl Engine {
    fn new(rates: [u64; 2], bursts: [u64; 2], aware: bool, since: u64) -> Engine {
        let ([cir, pir], [cbs, pbs]) = (rates.map(Rate::from_bps), bursts.map(Bytes::new));
        let meter = TrTcm::new(cir, cbs, pir, pbs).unwrap();
        Engine { credit: meter.start(Time::from_nanos(since)), meter, aware, colors: [0; 3] }
    }

    /// Meters what came, at the stamps that the kernel gave it.
    fn take(&mut self, frames: &[CapturedFrame]) {
        for frame in frames.iter().filter(|frame| !frame.outgoing) {
            let came = if self.aware { AF1.color_of(dscp(frame)) } else { Color::Green };
            let color = self.meter.meter(&mut self.credit, Time::from_nanos(frame.stamp), frame.len, came);
            self.colors[color as usize] += 1;
        }
    }
}

fn seen(frames: &[CapturedFrame]) -> [usize; 3] {
    [Dscp::AF11, Dscp::AF12, Dscp::AF13].map(|mark| frames.iter().filter(|frame| dscp(frame) == mark).count())
}

/// Each colour is within 2 % of what the engine's meter says, and there are enough of it to say so.
fn within(what: &str, seen: [usize; 3], expected: [usize; 3], least: [usize; 3]) {
    println!("{what}: green, yellow, red seen {seen:?}, by the engine's meter {expected:?}");
    for (color, least) in least.into_iter().enumerate() {
        let (seen, expected) = (seen[color] as f64, expected[color] as f64);
        assert!(expected >= least as f64, "{what}: {expected} of colour {color} prove nothing");
        assert!((seen - expected).abs() <= (0.02 * expected).max(2.0), "{what}: colour {color}: {seen}, {expected}");
    }
}

fn counted(client: &mut Client, handle: &str, packets: usize) -> ColorsDoc {
    wait_for("the colours are counted", || {
        let colors = shown(client, handle).parts[0].colors?;
        let sum = colors.green.packets + colors.yellow.packets + colors.red.packets;
        (sum == packets as u64).then_some(colors)
    })
}

#[test]
fn a_booking_with_a_meter_colours_what_exceeds_it() {
    let Some(bed) = Bed::of(|name| edge(name, false)) else { return };
    let mut client = bed.client("edge");
    let flow = FlowDoc {
        src: Some("10.0.0.1".parse().unwrap()),
        dst: Some("10.0.1.2".parse().unwrap()),
        protocol: Some(17),
        dst_port: Some(PORT),
        ..FlowDoc::default()
    };
    let meter = "trtcm,peak=6mbit,burst=10kb,peak-burst=20kb,mark-red";
    let wanted = PartDoc { binding: Some(BindingDoc::Flow(flow)), ..part("net/to-far", 4_000_000, Some(meter)) };
    let mut refused = |part: PartDoc| client.call(Request::BookCreate(ask(part))).unwrap_err().to_string();
    let foreground = refused(PartDoc { background: None, ..wanted.clone() });
    assert!(foreground.contains("EF has one bucket"), "{foreground}");
    let peak = refused(PartDoc { meter: Some(MeterDoc::parse("trtcm,peak=3mbit").unwrap()), ..wanted.clone() });
    assert!(peak.contains("the peak rate is below the rate that is booked"), "{peak}");
    let booked = reservation(&mut client, Request::BookCreate(ask(wanted)));
    let doc = in_force(&mut client, &booked.handle);
    let means = doc.parts[0].means.clone().unwrap();
    let of = "trTCM, CIR 4000000 bit/s, CBS 10240 B, PIR 6000000 bit/s, PBS 20480 B, red AF13";
    assert_eq!(means, format!("AF1x at the ingress of to-host, {of}"));

    // In the middle of it the agent is killed, and another one starts.
    let [before, behind] = send(&bed, 8e6, 6.0, &[Dscp::DEFAULT], || {
        std::thread::sleep(Duration::from_secs(2));
        bed.kill("edge");
        std::thread::sleep(Duration::from_secs(2));
        bed.start("edge");
    });
    let mut engine = Engine::new([4_000_000, 6_000_000], [10_240, 20_480], false, 0);
    engine.take(&before);
    assert_eq!(behind.len(), before.len(), "nothing is lost on the way");
    within("booking", seen(&behind), engine.colors, [2_000, 1_000, 1_000]);
    let mut client = bed.client("edge");
    let doc = in_force(&mut client, &booked.handle);
    assert_eq!(doc.parts[0].meter, Some(MeterDoc::parse(meter).unwrap()), "the journal has it");
    let colors = counted(&mut client, &booked.handle, before.len());
    let packets = [colors.green, colors.yellow, colors.red].map(|one| one.packets as usize);
    assert_eq!(packets, seen(&behind), "the counts are of both agents' lives");
    assert_eq!(colors.green.bytes, colors.green.packets * LENGTH as u64);
}

#[test]
fn an_agreement_with_a_meter_colours_what_exceeds_it() {
    let Some(bed) = Bed::of(|name| edge(name, true)) else { return };
    // The neighbour's agent is stopped, and with it the edge that would wipe the marks.
    let _ = bed.client("host").call(Request::Stop);
    let mut client = bed.client("edge");
    let metered = client.call(Request::BookCreate(ask(part("sla/anl", 2_000_000, Some("srtcm"))))).unwrap_err();
    assert!(metered.to_string().contains("an agreement says its own"), "{metered}");
    let booked = reservation(&mut client, Request::BookCreate(ask(part("sla/anl", 2_000_000, None))));
    let doc = in_force(&mut client, &booked.handle);
    let means = doc.parts[0].means.clone().unwrap();
    let of = "trTCM, CIR 2000000 bit/s, CBS 10240 B, PIR 4000000 bit/s, PBS 20480 B, colour-aware, red AF13";
    assert_eq!(means, format!("AF1x of all anl at the ingress of to-host, {of}"));

    // Three of four packets come as green, one as yellow; and then all as yellow.
    let marks = [Dscp::AF11, Dscp::AF11, Dscp::AF12, Dscp::AF11];
    let mut engine = Engine::new([2_000_000, 4_000_000], [10_240, 20_480], true, 0);
    let [before, behind] = send(&bed, 6e6, 3.0, &marks, || {
        std::thread::sleep(Duration::from_secs(1));
        bed.kill("edge");
    });
    engine.take(&before);
    assert_eq!(behind.len(), before.len(), "nothing is lost on the way");
    within("agreement", seen(&behind), engine.colors, [500, 500, 500]);
    bed.start("edge");
    in_force(&mut bed.client("edge"), &booked.handle);
    let so_far = engine.colors;
    let [before, behind] = send(&bed, 6e6, 2.0, &[Dscp::AF12], || ());
    engine.take(&before);
    let yellow = [0, 1, 2].map(|color| engine.colors[color] - so_far[color]);
    assert_eq!((seen(&behind)[0], yellow[0]), (0, 0), "no packet that comes as yellow is green behind the edge");
    within("yellow", seen(&behind), yellow, [0, 500, 300]);
}
