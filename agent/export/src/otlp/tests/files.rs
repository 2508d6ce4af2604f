//! The file of spans that wait: its order, its bounds, what it leaves to other readers, and what others do to
//! it.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, process::Command};

use opentelemetry_proto::tonic::{collector::trace::v1::ExportTraceServiceRequest, trace::v1::TracesData};
use prost::Message as _;
use rstest::rstest;
use tempfile::tempdir;

use super::{OFFSET_NS, held, request};
use crate::otlp::{
    LiveVerdict,
    message::count,
    service::{PerService, Resources},
    spans::Trace,
    spill::{Spill, SpillError},
    waits::Chosen,
};

const NAME: &str = "spill.otlp.binpb.zst";

fn size(folder: &Path) -> Option<u64> {
    fs::metadata(folder.join(NAME)).ok().map(|metadata| metadata.len())
}

/// A request as a message of so many spans.
fn message(number: u64, spans: u64) -> ExportTraceServiceRequest {
    let trace = Trace::new(request(number, spans), Chosen::default(), LiveVerdict::default(), OFFSET_NS);
    let program = trace.map(|(_, span)| span).collect();
    Resources::new("infer", Vec::new()).request(PerService { program, ..PerService::default() })
}

fn front(spill: &mut Spill) -> Option<ExportTraceServiceRequest> {
    let (spans, message) = spill.front()?;
    let message = message.expect("it can be read");
    assert_eq!(spans, count(&message));
    Some(message)
}

/// The file as another program reads it.
fn decompressed(folder: &Path) -> TracesData {
    let file = fs::File::open(folder.join(NAME)).expect("it is there");
    let plain = zstd::stream::decode_all(file).expect("it is a whole zstd file");
    TracesData::decode(&plain[..]).expect("it is one message")
}

/// Several messages, as protobuf puts them together.
fn together(messages: impl IntoIterator<Item = ExportTraceServiceRequest>) -> TracesData {
    TracesData { resource_spans: messages.into_iter().flat_map(|message| message.resource_spans).collect() }
}

#[test]
fn messages_leave_in_the_order_in_which_they_came() {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(held(folder.path())), NAME, u64::MAX);
    assert_eq!(size(folder.path()), None, "nothing is made before it is needed");
    for number in 1..4 {
        spill.push(&message(number, number)).expect("there is room");
    }
    assert_eq!(spill.spans(), 6);
    assert_eq!(front(&mut spill), Some(message(1, 1)));
    assert_eq!(front(&mut spill), Some(message(1, 1)), "it stays until it is left behind");
    spill.pop();
    spill.push(&message(4, 4)).expect("there is room");
    assert_eq!(spill.spans(), 9);
    let rest: Vec<ExportTraceServiceRequest> =
        std::iter::from_fn(|| front(&mut spill).inspect(|_| spill.pop())).collect();
    assert_eq!(rest, [message(2, 2), message(3, 3), message(4, 4)]);
    assert_eq!((size(folder.path()), spill.spans()), (Some(0), 0), "what has been read takes no room");
    spill.close().expect("it can be removed");
    assert_eq!(size(folder.path()), None);
}

/// At any time others read exactly what was not sent.
#[rstest]
#[case::nothing_was_sent(0)]
#[case::some(1)]
#[case::most(3)]
fn the_end_keeps_only_what_was_not_read(#[case] read: usize) {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(held(folder.path())), NAME, u64::MAX);
    let all: Vec<ExportTraceServiceRequest> = (1..5).map(|number| message(number, 3)).collect();
    for message in &all {
        spill.push(message).expect("there is room");
    }
    for _ in 0..read {
        front(&mut spill).expect("there is more");
        spill.pop();
    }
    let mut seen = Vec::new();
    let keep = |message| {
        seen.push(message);
        Ok(())
    };
    spill.each(keep).expect("they can be read");
    assert_eq!(seen, all[read..]);
    spill.close().expect("it can be closed");
    assert_eq!(decompressed(folder.path()), together(all[read..].to_vec()));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "no other file is left");
}

/// The folder is the observed user's, who puts a link to another user's file under the name.
#[test]
fn what_others_put_under_its_name_is_neither_read_nor_removed() {
    let folder = tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "secret").expect("a file");
    let mut spill = Spill::new(Some(held(folder.path())), NAME, u64::MAX);
    for number in 1..4 {
        spill.push(&message(number, 1)).expect("there is room");
    }
    fs::remove_file(folder.path().join(NAME)).expect("it is there");
    std::os::unix::fs::symlink(&secret, folder.path().join(NAME)).expect("the folder is ours");
    for number in 1..4 {
        assert_eq!(front(&mut spill), Some(message(number, 1)));
        spill.pop();
    }
    spill.close().expect("nothing is left");
    assert!(fs::symlink_metadata(folder.path().join(NAME)).is_ok_and(|found| found.is_symlink()));
    assert_eq!(fs::read(&secret).expect("it is there"), b"secret");
}

/// The room of what has been sent is given back while the rest still waits.
#[test]
fn room_comes_back_while_the_file_is_read() {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(held(folder.path())), NAME, 12 << 20);
    // Random ids, which do not compress.
    let random = |seed: u64| {
        let mut message = message(seed, 1);
        let mut state = seed | 1;
        let mut noise = vec![0_u8; 1 << 20];
        for byte in &mut noise {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = (state >> 32) as u8;
        }
        message.resource_spans[0].scope_spans[0].spans[0].trace_id = noise;
        message
    };
    for seed in 1..12 {
        spill.push(&random(seed)).expect("there is room");
    }
    let full = spill.push(&random(99));
    assert!(matches!(full, Err(SpillError::Full { .. })), "{full:?}");
    for _ in 0..9 {
        spill.front().expect("there is more").1.expect("it can be read");
        spill.pop();
    }
    for seed in 20..25 {
        spill.push(&random(seed)).expect("what was read made room");
    }
    let metadata = fs::metadata(folder.path().join(NAME)).expect("it is there");
    assert!(metadata.blocks() * 512 < 9 << 20, "{} blocks", metadata.blocks());
    spill.close().expect("it can be closed");
    let left = ExportTraceServiceRequest { resource_spans: decompressed(folder.path()).resource_spans };
    assert_eq!(count(&left), 7);
}

#[test]
fn the_bound_holds() {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(held(folder.path())), NAME, 100);
    let full = spill.push(&message(1, 10));
    assert!(matches!(full, Err(SpillError::Full { bytes: 100, .. })), "{full:?}");
    assert_eq!((size(folder.path()), spill.spans()), (None, 0));
}

#[test]
fn what_cannot_be_used_says_why() {
    let folder = tempdir().expect("a folder");
    let none = Spill::new(None, NAME, u64::MAX).push(&message(1, 1));
    assert!(matches!(none, Err(SpillError::NoFolder)), "{none:?}");
    let gone = Spill::new(Some(held(&folder.path().join("gone"))), NAME, u64::MAX).push(&message(1, 1));
    assert!(matches!(gone, Err(SpillError::Io { .. })), "{gone:?}");
    fs::write(folder.path().join(NAME), "of another run\n").expect("a file");
    let other = Spill::new(Some(held(folder.path())), NAME, u64::MAX).push(&message(1, 1));
    assert!(matches!(other, Err(SpillError::Io { .. })), "{other:?}");
    assert_eq!(size(folder.path()), Some(15), "it is unharmed");
}

/// The file may be the observed user's. After any change exactly the unreadable spans are counted.
#[rstest]
#[case::cut_off(|bytes: &mut Vec<u8>| bytes.truncate(9))]
#[case::emptied(|bytes: &mut Vec<u8>| bytes.clear())]
#[case::a_byte_of_a_frame(|bytes: &mut Vec<u8>| bytes[60] ^= 1)]
#[case::no_header(|bytes: &mut Vec<u8>| bytes[0] ^= 1)]
#[case::a_huge_frame(|bytes: &mut Vec<u8>| bytes[8..12].fill(0xff))]
#[case::a_huge_message(|bytes: &mut Vec<u8>| bytes[12..16].fill(0xff))]
#[case::more_spans(|bytes: &mut Vec<u8>| bytes[16..20].fill(0xff))]
#[case::another_order(|bytes: &mut Vec<u8>| {
    let half = bytes.len() / 2;
    bytes.rotate_left(half);
})]
fn a_file_that_somebody_changed_is_not_believed(#[case] change: fn(&mut Vec<u8>)) {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(held(folder.path())), NAME, u64::MAX);
    (0..2).for_each(|_| spill.push(&message(7, 5)).expect("there is room"));
    let path = folder.path().join(NAME);
    let mut bytes = fs::read(&path).expect("it is there");
    change(&mut bytes);
    fs::write(&path, bytes).expect("its owner may");
    let (lost, found) = spill.front().expect("it thinks so");
    assert!(matches!(found, Err(SpillError::Changed { .. })), "{found:?}");
    spill.pop();
    assert_eq!((lost, spill.spans()), (10, 0));
    spill.push(&message(8, 2)).expect("there is room");
    assert_eq!(front(&mut spill), Some(message(8, 2)), "it goes on");
}

/// The documented command.
#[test]
fn the_tool_reads_it() {
    let folder = tempdir().expect("a folder");
    let mut spill = Spill::new(Some(held(folder.path())), NAME, u64::MAX);
    (1..4).for_each(|number| spill.push(&message(number, 3)).expect("there is room"));
    front(&mut spill).expect("there is more");
    spill.pop();
    spill.close().expect("it can be closed");
    // Without the tool: the tests above used the library.
    let Ok(output) = Command::new("zstd").arg("-dc").arg(folder.path().join(NAME)).output() else { return };
    assert!(output.status.success(), "{output:?}");
    let message = TracesData::decode(&output.stdout[..]).expect("it is one message");
    assert_eq!(message, together([self::message(2, 3), self::message(3, 3)]));
}
