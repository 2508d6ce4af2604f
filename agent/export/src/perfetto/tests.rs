//! Contents of a trace, read back by the same messages. Their field numbers are checked by hand against
//! Perfetto's definitions (`agent/tests/commands/read_perfetto.py`).

use guestscope_contract::Account;

use super::*;
use crate::analyze::samples::{Sample as Made, Step};

fn trace(requests: &[Request]) -> Vec<TracePacket> {
    let clock = ClockPair { monotonic_ns: 5, wall_ns: 1_795_249_821_000_000_000 };
    let mut packets = Packets::new(Vec::new(), clock).unwrap();
    for request in requests {
        packets.request(request, Some("runq"), None).unwrap();
    }
    let (bytes, written) = packets.finish().unwrap();
    assert_eq!(written.requests, requests.len() as u64);
    Trace::decode(bytes.as_slice()).unwrap().packet
}

fn events(packets: &[TracePacket]) -> Vec<(u64, &TrackEvent)> {
    let event = |packet: &'_ TracePacket| packet.timestamp;
    packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::TrackEvent(found)) => Some((event(packet)?, found)),
            Some(Data::ClockSnapshot(_) | Data::TrackDescriptor(_)) | None => None,
        })
        .collect()
}

fn request() -> Request {
    let steps = vec![
        Step::Nest("preprocess", vec![Step::Spend(Account::Cpu, 30)]),
        Step::Nest("inference", vec![Step::Spend(Account::Cpu, 50), Step::Spend(Account::Runq, 20)]),
        Step::Spend(Account::Cpu, 7),
    ];
    Made { queued_ns: 40, ..Made::new(3, 1_000, steps) }.build()
}

#[test]
fn slices_nest_and_follow_each_other_as_phases_do() {
    let packets = trace(&[request()]);
    let name = |event: &TrackEvent| event.name.clone().unwrap_or_else(|| "end".to_owned());
    let told: Vec<_> = events(&packets).iter().map(|(at, event)| (*at, name(event))).collect();
    let on_thread: Vec<(u64, &str)> = vec![
        (1_000, "request"),
        (960, "queue"),
        (1_000, "end"),
        (1_000, "preprocess"),
        (1_030, "end"),
        (1_030, "inference"),
        (1_100, "end"),
        (1_107, "end"),
    ];
    let told: Vec<(u64, &str)> = told.iter().map(|(at, name)| (*at, name.as_str())).collect();
    assert_eq!(told, on_thread);
    // The queue has a separate track: other phases ran on the thread then.
    let found = events(&packets);
    let track = |index: usize| found[index].1.track_uuid;
    assert_eq!(track(0), track(3));
    assert_ne!(track(0), track(1));
    assert_eq!(track(1), track(2));
}

#[test]
fn accounts_and_verdicts_are_annotations() {
    let packets = trace(&[request()]);
    let found = events(&packets);
    let value = |event: &TrackEvent, name: &str| {
        let annotation = event.debug_annotations.iter().find(|one| one.name.as_deref() == Some(name));
        annotation.and_then(|annotation| annotation.value.clone())
    };
    let (request, inference) = (found[0].1, found[5].1);
    assert_eq!(value(request, "cause"), Some(Value::String("runq".to_owned())));
    assert_eq!(value(request, "request"), Some(Value::Uint(3)));
    assert_eq!(value(inference, "time.runq_ns"), Some(Value::Uint(20)));
    assert_eq!(value(inference, "time.lock_ns"), None);
    assert_eq!(value(inference, "cause"), None);
}

#[test]
fn every_event_has_a_track_that_was_described_once() {
    let packets = trace(&[request(), request()]);
    let mut described: Vec<u64> = packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::TrackDescriptor(track)) => track.uuid,
            Some(Data::ClockSnapshot(_) | Data::TrackEvent(_)) | None => None,
        })
        .collect();
    assert!(events(&packets).iter().all(|(_, event)| described.contains(&event.track_uuid.unwrap())));
    described.sort_unstable();
    let before = described.len();
    described.dedup();
    // The same request twice has one queue twice.
    assert_eq!(before - described.len(), 1);
}

#[test]
fn a_graphics_processor_has_counters_of_its_own_times() {
    let mut packets = Packets::new(Vec::new(), ClockPair::default()).unwrap();
    let reading = |time_ns, device, percent| GpuReading {
        time_ns,
        device,
        utilization_percent: Some(percent),
        ..GpuReading::default()
    };
    for gpu in [Some(reading(90, 0, 40)), Some(reading(91, 1, 50)), Some(reading(290, 0, 60)), None] {
        packets.sample(&Sample { time_ns: 1_000, gpu, ..Sample::default() }).unwrap();
    }
    let (bytes, _) = packets.finish().unwrap();
    let packets = Trace::decode(bytes.as_slice()).unwrap().packet;
    let tracks: Vec<(u64, String)> = packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::TrackDescriptor(track)) => Some((track.uuid?, track.name.clone()?)),
            Some(Data::ClockSnapshot(_) | Data::TrackEvent(_)) | None => None,
        })
        .collect();
    let points = |name: &str| -> Vec<(u64, i64)> {
        let track = tracks.iter().find(|(_, known)| known == name).unwrap().0;
        let of = events(&packets).into_iter().filter(|(_, event)| event.track_uuid == Some(track));
        of.map(|(time_ns, event)| (time_ns, event.counter_value.unwrap())).collect()
    };
    assert_eq!(points("GPU 0: utilization"), [(90, 40), (290, 60)]);
    assert_eq!(points("GPU 1: utilization"), [(91, 50)]);
    assert!(!tracks.iter().any(|(_, name)| name.contains("power")), "nothing was told of it");
}

/// Two traces of one run can be laid over each other: their tracks have the same ids.
#[test]
fn ids_of_tracks_stay_as_they_are() {
    assert_eq!(uuid(1, 10, 0), 0xaa9c_fa16_4952_e4da);
    assert_eq!(uuid(2, 11, 7), 0xddb4_e58b_3609_cc86);
}
