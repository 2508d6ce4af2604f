//! `seeds FOLDER`: writes the binary seeds of the fuzz targets, from what our own writers make. For
//! `fuzz/seeds`, when a format has changed: `cargo run -p guestscope-fuzz --example seeds -- fuzz/seeds`.
#![expect(clippy::unwrap_used, reason = "a tool for developers may stop at once")]

mod btf;
mod elf;

use std::{fs, path::Path};

use guestscope_contract::{Account, EdgeRecord, IoRecord, Kind, TaskRecord, WaitRecord};
use guestscope_cupti::{Encoded, Failed, Hello, Message, Name, Step, Window, Work};
use guestscope_folder::{ClockPair, CreateOptions, Manifest, RunFolder, Sample};
use guestscope_fuzz::program::{ASKED, look};
use guestscope_marker::ring;
use guestscope_model::{
    analyze::samples,
    phase::{GpuWork, Mark, ThreadId},
};
use guestscope_workloads::data::tfrecord::{self, Picture};
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use prost::Message as _;

/// In the order of the target `table`.
const TABLES: [&str; 6] = ["phases", "threads", "samples", "marks", "waits", "gpu_work"];

fn main() {
    let place = std::env::args_os().nth(1).expect("seeds FOLDER");
    let seeds = Seeds(Path::new(&place));
    seeds.records();
    seeds.ring();
    seeds.tables();
    seeds.histogram();
    seeds.cupti();
    seeds.pictures();
    seeds.spans();
    seeds.programs();
    seeds.put("btf", "kernel", &btf::kernel());
}

struct Seeds<'a>(&'a Path);

impl Seeds<'_> {
    fn put(&self, target: &str, name: &str, bytes: &[u8]) {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    }

    /// A record of each kind, all zero but for it.
    fn records(&self) {
        let kinds = [
            ("edge", Kind::Edge, size_of::<EdgeRecord>()),
            ("fork", Kind::Fork, size_of::<TaskRecord>()),
            ("wait", Kind::Wait, size_of::<WaitRecord>()),
            ("io", Kind::Io, size_of::<IoRecord>()),
        ];
        for (name, kind, length) in kinds {
            let mut record = vec![0; length];
            record[..4].copy_from_slice(&(kind as u32).to_ne_bytes());
            self.put("record", name, &record);
        }
    }

    /// One slot that is done, with the words of an edge of the marker's ABI.
    fn ring(&self) {
        let mut words = [0; ring::RECORD_WORDS];
        words[0] = u64::from(guestscope_contract::MARKER_ABI_VERSION) << 8 | 1;
        words[6] = 1_000_000;
        words[9] = (11 << 32) + 10;
        let mut slot = vec![1_u64, ring::checksum(0, &words)];
        slot.extend(words);
        slot.resize(ring::SLOT_WORDS, 0);
        let mut bytes = vec![1, 0];
        bytes.extend(slot.iter().flat_map(|word| word.to_le_bytes()));
        self.put("ring", "edge", &bytes);
    }

    /// Each table in both forms, the first byte saying which.
    fn tables(&self) {
        let parent = tempfile::tempdir().unwrap();
        let start = ClockPair { monotonic_ns: 5_000_000_000, wall_ns: 1_795_249_821_000_000_000 };
        let options = CreateOptions { parent: parent.path().to_owned(), owner: None };
        let mut folder = RunFolder::create(&options, Manifest::new([1; 16], "seed", start)).unwrap();
        let requests = samples::inference(4);
        for request in &requests {
            folder.append_request(request);
            folder.append_wait(&samples::wait(&request.phases[1], Account::Lock, [5, 0, 7]));
        }
        folder.append_thread(&samples::thread(11, 10, "serve", &[(Account::Cpu, 7)]));
        let (thread, name) = (ThreadId { tid: 11, tgid: 10, born_ns: 1 }, "mark".into());
        folder.append_mark(&Mark { thread, name, time_ns: 7, phase: None });
        folder.append_sample(&Sample {
            time_ns: 7,
            agent_cpu_ns: 1,
            agent_rss_bytes: 2,
            psi_cpu_some_ns: Some(3),
            psi_memory_some_ns: None,
            psi_io_some_ns: None,
            steal_ns: None,
            edges_read: 4,
            gpu: None,
        });
        folder.append_gpu_work(&GpuWork { name: "gemm".into(), phase: Some(2), ..GpuWork::default() });
        folder.flush();
        let path = folder.path().to_owned();
        self.tables_in(&path, 0, "arrows");
        folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap();
        self.tables_in(&path, TABLES.len(), "parquet");
    }

    fn tables_in(&self, folder: &Path, first: usize, form: &str) {
        for (index, table) in TABLES.iter().enumerate() {
            let mut bytes = vec![u8::try_from(first + index).unwrap()];
            bytes.extend(fs::read(folder.join(format!("{table}.{form}"))).unwrap());
            self.put("table", &format!("{table}.{form}"), &bytes);
        }
    }

    /// One message of each kind.
    fn cupti(&self) {
        let messages = [
            Message::Hello(Hello { version: 18, library: b"libcupti.so.12" }),
            Message::Name(Name { id: 7, name: b"gemm" }),
            Message::Work(Work { start_ns: 5, end_ns: 9, name: 7, ..Work::default() }),
            Message::Window(Window { end_ns: 10, ..Window::default() }),
            Message::Failed(Failed { step: Step::Kernels, result: 35 }),
        ];
        let bytes: Vec<u8> =
            messages.iter().flat_map(|message| Encoded::of(message).bytes().to_vec()).collect();
        self.put("cupti", "messages", &bytes);
    }

    fn histogram(&self) {
        let mut histogram =
            hdrhistogram::Histogram::<u64>::new_with_bounds(1, 86_400_000_000_000, 3).unwrap();
        for value in [1_000, 2_000, 70_000] {
            histogram.record(value).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        self.put("histogram", "three", &bytes);
    }

    fn pictures(&self) {
        let mut jpeg = Vec::new();
        let pixels: Vec<u8> = (0..8 * 8 * 3).collect();
        jpeg_encoder::Encoder::new(&mut jpeg, 80)
            .encode(&pixels, 8, 8, jpeg_encoder::ColorType::Rgb)
            .unwrap();
        self.put("jpeg", "square.jpg", &jpeg);
        let example = Picture { jpeg: vec![0xff, 0xd8, 0xff, 0xd9].into(), label: 7 }.to_example("a.jpg");
        let mut record = Vec::new();
        tfrecord::write(&mut record, &example).unwrap();
        self.put("tfrecord", "file", &record);
        self.put("tfrecord", "example", &example);
    }

    fn spans(&self) {
        let span =
            Span { trace_id: vec![1; 16], span_id: vec![2; 8], name: "infer".into(), ..Span::default() };
        let of_scope = ScopeSpans { spans: vec![span], ..ScopeSpans::default() };
        let resource_spans = vec![ResourceSpans { scope_spans: vec![of_scope], ..ResourceSpans::default() }];
        self.put("spill", "span", &TracesData { resource_spans }.encode_to_vec());
    }

    /// Each file once for all that is in it, the first byte saying what is asked for.
    fn programs(&self) {
        let files = [("library", elf::library()), ("go", elf::go(false)), ("stripped-go", elf::go(true))];
        let mut found = Vec::new();
        for (name, file) in files {
            for (asked, number) in ASKED.iter().zip(0_u8..) {
                let places = look(asked, &file);
                if places > 0 {
                    self.put("elf", &format!("{name}-{number}"), &[&[number], &file[..]].concat());
                    found.push((name, number));
                }
            }
        }
        let of = |name, numbers: &[u8]| numbers.iter().map(|number| (name, *number)).collect::<Vec<_>>();
        let all = [of("library", &[0, 1, 2, 3, 4, 5]), of("go", &[2]), of("stripped-go", &[2])].concat();
        assert_eq!(found, all, "the files are read as they are meant");
        self.put("unwind", "two", &elf::unwinding());
    }
}
