//! Any request of a program becomes messages: as large as they were measured, the same from the disk, and
//! halved without a loss.

use std::{collections::HashSet, sync::Arc};

use guestscope_contract::{ACCOUNTS, Account, Source};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    trace::v1::{Span, TracesData},
};
use proptest::{array::UniformArrayStrategy, prelude::*};
use prost::Message as _;
use tempfile::tempdir;

use super::{OFFSET_NS, collector::Collector, exporter, held, phase, wait};
use crate::{
    otlp::{
        FINISH, LiveVerdict, Protocol, Value, WallClock,
        message::{count, line, span_bytes, spans, split_off},
        service::{PerService, Resources},
        spans::Trace,
        spill::Spill,
        waits::Keeper,
    },
    phase::{
        Accounts, Blame, COUNTS, Counts, Ending, GpuReading, GpuWork, HelperWait, Helpers, Pause, Phase,
        PhaseKind, Request, Restored, RestoredBy, Wait, WaitedIo,
    },
};

/// What the trace of a request is made of.
#[derive(Clone, Debug)]
struct Made {
    request: Request,
    waits: Vec<Wait>,
    pauses: Vec<Pause>,
    restored: Vec<Restored>,
    gpus: Vec<GpuReading>,
    verdict: LiveVerdict,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        ".{0,40}",
        "[\u{0}-\u{1f}\u{7f}-\u{9f}\"\\\\äß日\u{1F600}]{1,20}",
        prop::sample::select(vec!["GET /items/{id}", "POST", "/infer.Models/Predict"])
            .prop_map(str::to_owned),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..300, any::<u64>(), prop::sample::select(vec![0, 127, 128, 1 << 53, u64::MAX])]
}

/// Times may be anything that does not add up to more than a clock can show.
fn accounts() -> impl Strategy<Value = Accounts> {
    UniformArrayStrategy::<_, [u64; ACCOUNTS]>::new(prop_oneof![Just(0), 0_u64..u64::MAX / 16])
        .prop_map(Accounts)
}

fn helpers() -> impl Strategy<Value = Helpers> {
    let wait = (prop::array::uniform4(number()), prop::array::uniform4(number()))
        .prop_map(|(on_cpu, waiting)| HelperWait { on_cpu, waiting });
    (accounts(), any::<bool>(), any::<bool>(), wait).prop_map(|(accounts, shared, partial, wait)| Helpers {
        accounts,
        threads: 1,
        shared,
        partial,
        wait,
    })
}

/// A phase of 1 ms to 9 ms below the first one, with this id.
fn any_phase(id: u64) -> impl Strategy<Value = Phase> {
    let parent = (id > 1).then_some(1);
    let kind = prop::sample::select(vec![PhaseKind::Request, PhaseKind::Phase, PhaseKind::Process]);
    let ending = prop::sample::select(vec![Ending::Ended, Ending::Lost]);
    let source = prop::sample::select(vec![Source::Marker, Source::Python, Source::Socket]);
    let who = (text(), kind, source, prop::option::of(0_u32..700), ending);
    let what = (accounts(), prop::collection::vec(number(), COUNTS), helpers());
    let more =
        (1_000_000_u64..9_000_000, any::<bool>(), 0_u64..3, number(), prop::option::of(any::<[u8; 8]>()));
    (who, what, more).prop_map(move |(who, what, more)| {
        let (name, kind, source, status, ending) = who;
        let (accounts, counts, helpers) = what;
        let (duration_ns, parent_is_remote, edges_lost, suspended_ns, remote) = more;
        let mut made = phase(7, id, parent, &name);
        made.trace.parent_is_remote = parent_is_remote;
        made.trace.parent_span_id = made.trace.parent_span_id.or(remote);
        let suspended_ns = suspended_ns >> 8;
        Phase {
            comm: name.as_str().into(),
            kind,
            source,
            status,
            ending,
            accounts,
            counts: Counts::from_array(counts.try_into().expect("as many as there are")),
            helpers,
            duration_ns,
            edges_lost,
            suspended_ns,
            pause_ns: suspended_ns / 2,
            ..made
        }
    })
}

/// A wait in one of so many phases: which one, with what it says beside its times.
fn any_wait(phases: usize) -> impl Strategy<Value = (usize, Wait)> {
    let place = (0..phases, 0_u64..1_000_000, 1_u64..9_000_000);
    let known = (prop::option::of(any::<u32>()), any::<u32>(), any::<u32>(), any::<bool>());
    (place, known, text()).prop_map(|((at, after_ns, length_ns), (number, cpu, tid, more), comm)| {
        let io = WaitedIo {
            device: "259:1".into(),
            name: comm.as_str().into(),
            is_write: more,
            ..WaitedIo::default()
        };
        let blame = Blame { tid, account: Account::Cpu, stopped_by: None, ns: length_ns, depth: 2 };
        let made = wait(&phase(7, 1, None, ""), after_ns, length_ns);
        let made = Wait {
            syscall: number,
            waker_tid: number,
            cpu,
            ran_before_tid: tid,
            ran_before_comm: comm.as_str().into(),
            cgroup: more.then(|| comm.as_str().into()),
            io: more.then_some(io),
            blame: more.then_some(blame),
            ..made
        };
        (at, made)
    })
}

fn made() -> impl Strategy<Value = Made> {
    let phases = (1_u64..6).prop_flat_map(|phases| (1..=phases).map(any_phase).collect::<Vec<_>>());
    let beside = phases.prop_flat_map(|phases| {
        let waits = prop::collection::vec(any_wait(phases.len()), 0..60);
        let times = prop::collection::vec(0_u64..9_000_000, 0..4);
        (Just(phases), waits, times, prop::option::of(text()), any::<bool>())
    });
    beside.prop_map(|(phases, waits, times, cause, is_slow)| {
        let from_ns = phases[0].start_ns;
        let waits = waits.into_iter().map(|(at, wait)| Wait {
            phase: Some(phases[at].id),
            start_ns: wait.start_ns - from_ns + phases[at].start_ns,
            ..wait
        });
        let reading = |time_ns| GpuReading {
            time_ns,
            utilization_percent: Some(time_ns),
            throttle_reasons: Some(5),
            ..GpuReading::default()
        };
        let times = times.into_iter().map(|after_ns| from_ns + after_ns);
        let pause = |start_ns| Pause { start_ns, duration_ns: 400_000, doubt_ns: start_ns };
        Made {
            waits: waits.collect(),
            pauses: times.clone().map(pause).collect(),
            restored: times
                .clone()
                .map(|noticed_ns| Restored { noticed_ns, source: RestoredBy::Vmgenid })
                .collect(),
            gpus: times.map(reading).collect(),
            verdict: LiveVerdict {
                cause: cause.map(Into::into),
                tail: Some(if is_slow { "p99" } else { "p50" }.into()),
            },
            request: Request { phases },
        }
    })
}

fn resources(name: &str) -> Resources {
    let attributes = vec![
        ("host.name".into(), Value::StringValue(name.to_owned())),
        ("process.pid".into(), Value::IntValue(1)),
    ];
    Resources::new(name, attributes)
}

/// Work of a GPU for each phase, as long as that.
fn works(request: &Request) -> impl Iterator<Item = GpuWork> {
    request.phases.iter().map(|phase| {
        let end_ns = phase.start_ns.saturating_add(phase.duration_ns);
        let (phase, start_ns, name) = (Some(phase.id), phase.start_ns, phase.name.clone());
        GpuWork { phase, start_ns, end_ns, name, ..GpuWork::default() }
    })
}

/// Spans of all services.
fn built(made: Made) -> PerService<Vec<Span>> {
    let mut keeper = Keeper::default();
    made.waits.into_iter().for_each(|wait| keeper.add(wait));
    made.pauses.into_iter().for_each(|pause| keeper.stopped(pause));
    made.restored.into_iter().for_each(|restored| keeper.restored(restored));
    made.gpus.into_iter().for_each(|reading| keeper.gpu(reading));
    works(&made.request).for_each(|work| keeper.gpu_work(work));
    let waits = keeper.take_of(&made.request, made.verdict.tail.as_deref());
    let mut spans = PerService::<Vec<_>>::default();
    for (service, span) in Trace::new(Arc::new(made.request), waits, made.verdict, OFFSET_NS) {
        spans.get_mut(service).push(span);
    }
    spans
}

proptest! {
    /// Batches are made by this measure: no request may be larger, nor much smaller.
    #[test]
    fn a_message_is_as_large_as_it_was_measured(made in made(), name in text()) {
        let (resources, spans) = (resources(&name), built(made));
        let bytes: usize =
            spans.program.iter().chain(&spans.kernel).chain(&spans.gpu).map(span_bytes).sum();
        let request = resources.request(spans);
        let encoded = request.encode_to_vec();
        prop_assert_eq!(request.encoded_len(), encoded.len());
        let most = bytes + resources.bytes();
        prop_assert!(encoded.len() <= most, "{} bytes, not {most}", encoded.len());
        if request.resource_spans.len() == 3 {
            prop_assert!(most <= encoded.len() + 48, "{most} for {} bytes", encoded.len());
        }
        prop_assert_eq!(ExportTraceServiceRequest::decode(&encoded[..]).expect("we wrote it"), request);
    }

    /// Wherever a request is split, both parts together are all of it, and each part has its resources.
    #[test]
    fn two_parts_are_the_whole(made in made(), at in 0_usize..70) {
        let whole = resources("infer").request(built(made));
        let mut first = whole.clone();
        let second = split_off(&mut first, at);
        prop_assert_eq!(count(&first), count(&whole).min(at as u64));
        let together: Vec<_> = spans(&first).chain(spans(&second)).cloned().collect();
        prop_assert_eq!(together, spans(&whole).cloned().collect::<Vec<_>>());
        for part in first.resource_spans.iter().chain(&second.resource_spans) {
            let of = whole.resource_spans.iter().find(|of| of.resource == part.resource).expect("a service");
            prop_assert_eq!(&of.schema_url, &part.schema_url);
            prop_assert_eq!(&of.scope_spans[0].scope, &part.scope_spans[0].scope);
            prop_assert!(!part.scope_spans[0].spans.is_empty());
        }
    }

    /// Ids are those of the phases and waits, and each is there once.
    #[test]
    fn every_span_has_an_id_of_its_own(made in made()) {
        let (phases, request) = (made.request.phases.clone(), resources("infer").request(built(made)));
        let ids: HashSet<_> = spans(&request).map(|span| &span.span_id).collect();
        prop_assert_eq!(ids.len() as u64, count(&request));
        for phase in phases {
            prop_assert!(ids.contains(&phase.trace.span_id.to_vec()));
        }
    }
}

proptest! {
    // Each case writes files or opens sockets, and so does each step of shrinking.
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 100, ..ProptestConfig::default() })]

    /// What waits on the disk is what would have been sent, for us and for others.
    #[test]
    fn every_request_comes_back_from_the_disk(all in prop::collection::vec(made(), 1..4)) {
        let folder = tempdir().expect("a folder");
        let mut spill = Spill::new(Some(held(folder.path())), "spill.otlp.binpb.zst", u64::MAX);
        let all: Vec<_> = all.into_iter().map(|made| resources("infer").request(built(made))).collect();
        for request in &all {
            spill.push(request).expect("there is room");
        }
        for request in all {
            let (spans, found) = spill.front().expect("it was written");
            prop_assert_eq!(spans, count(&request));
            prop_assert_eq!(&found.expect("it can be read"), &request);
            spill.pop();
            let line = line(&request).expect("it can be written");
            prop_assert_eq!(line.iter().position(|&byte| byte == b'\n'), Some(line.len() - 1), "one line");
            let read: TracesData = serde_json::from_slice(&line).expect("others can read it");
            prop_assert_eq!(read.resource_spans, request.resource_spans);
        }
        prop_assert!(spill.front().is_none());
    }

    /// A collector gets as many bytes as the message has, and the message that was built.
    #[test]
    fn the_bytes_sent_are_those_of_the_message(made in made()) {
        let collector = Collector::start(Protocol::HttpProtobuf);
        let exporter = exporter(&collector.endpoint(), &[], |config| {
            config.protocol = Some(Protocol::HttpProtobuf);
            config.clock = WallClock::default();
        });
        made.waits.iter().for_each(|wait| exporter.wait(wait.clone()));
        made.pauses.iter().for_each(|pause| exporter.pause(*pause));
        made.restored.iter().for_each(|restored| exporter.restored(*restored));
        made.gpus.iter().for_each(|reading| exporter.gpu(*reading));
        works(&made.request).for_each(|work| exporter.gpu_work(work));
        exporter.offer_at(Arc::new(made.request.clone()), made.verdict.clone(), OFFSET_NS);
        let health = exporter.finish(FINISH);
        let received = collector.received();
        let [received] = &received[..] else { panic!("one request, not {}: {health:?}", received.len()) };
        let length = received.header("content-length").and_then(|text| text.parse().ok());
        prop_assert_eq!(length, Some(received.request.encoded_len()));
        let expected = Resources::new("infer", vec![super::platform()]).request(built(made));
        prop_assert_eq!(&received.request, &expected);
    }
}
