//! The agent's side of the CUPTI library's messages, with programs that only send.

use std::{os::unix::net::UnixStream as Plain, sync::Arc, time::Duration};

use guestscope_cupti::{Encoded, Failed, Hello, Kind, Message, Name, ORDER_BYTES, Step, Window, Work};
use guestscope_model::phase::{GpuWork, GpuWorkKind};
use tokio::{net::UnixStream, runtime::Runtime, sync::Semaphore, time::timeout};

use super::*;

const EVERY: Schedule = Schedule::Every { open: Duration::from_millis(200), every: Duration::from_secs(10) };

/// A connected program, and the other end of its connection.
fn connected(trace: &mut Trace) -> Plain {
    let (ours, theirs) = Plain::pair().expect("a pair can be made");
    ours.set_nonblocking(true).expect("it is a socket");
    let stream = UnixStream::from_std(ours).expect("there is a runtime");
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("it is free");
    let pid = 7 + trace.programs.len() as u32;
    trace.admit(pid, stream, place);
    theirs
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made")
}

async fn next(trace: &mut Trace) -> Vec<Traced> {
    timeout(Duration::from_secs(20), trace.next()).await.expect("something came")
}

fn send(program: &mut Plain, messages: &[Message<'_>]) {
    let bytes: Vec<u8> = messages.iter().flat_map(|message| Encoded::of(message).bytes().to_vec()).collect();
    io::Write::write_all(program, &bytes).expect("it is connected");
}

#[test]
fn a_program_is_told_to_record_and_tells() {
    runtime().block_on(async {
        let mut trace = Trace::new(EVERY);
        let mut program = connected(&mut trace);
        let work = Work {
            kind: Kind::Kernel,
            thread: 9,
            start_ns: 5,
            end_ns: 8,
            called_ns: 2,
            name: 3,
            ..Work::default()
        };
        let copy = Work { kind: Kind::Copy, copy: 2, start_ns: 9, end_ns: 7, bytes: 4, ..Work::default() };
        send(
            &mut program,
            &[
                Message::Hello(Hello { version: 18, library: b"libcupti.so.12" }),
                Message::Name(Name { id: 3, name: b"_Z4gemmIfEvPT_i" }),
                Message::Work(work),
                Message::Work(copy),
                Message::Window(Window { begin_ns: 1, end_ns: 10, dropped: 1, unsent: 2, cut: 3, cpu_ns: 4 }),
                Message::Failed(Failed { step: Step::Graphs, result: 27 }),
            ],
        );
        let told = next(&mut trace).await;
        let row = GpuWork { process: 7, ..GpuWork::default() };
        let kernel = GpuWork {
            name: "gemm<float>".into(),
            thread: 9,
            start_ns: 5,
            end_ns: 8,
            called_ns: 2,
            returned_ns: 2,
            ..row.clone()
        };
        let kind = GpuWorkKind::Copy;
        let copy =
            GpuWork { kind, name: "device to host".into(), start_ns: 9, end_ns: 9, bytes: 4, ..row.clone() };
        let kind = GpuWorkKind::Window;
        let window = GpuWork { kind, start_ns: 1, end_ns: 10, lost: 6, cost_ns: 4, ..row };
        let why =
            "process 7: CUPTI records no CUDA graphs as such: it does not support this device (its error 27)";
        assert_eq!(
            told,
            [
                Traced::Known(18, "libcupti.so.12".into()),
                Traced::Work(kernel),
                Traced::Work(copy),
                Traced::Work(window),
                Traced::Trouble(why.to_owned()),
            ]
        );
        let mut order = [0; ORDER_BYTES];
        io::Read::read_exact(&mut program, &mut order).expect("an order came");
        assert_eq!(Order::read(order), Order { open_ms: 200 });
    });
}

#[test]
fn what_makes_no_sense_ends_a_connection_and_no_other() {
    runtime().block_on(async {
        let mut trace = Trace::new(EVERY);
        let (mut bad, mut good) = (connected(&mut trace), connected(&mut trace));
        io::Write::write_all(&mut bad, b"GET / HTTP/1.1\r\n").expect("it is connected");
        let told = next(&mut trace).await;
        assert_eq!(told, [Traced::Trouble("process 7 sent what makes no sense".to_owned())]);
        send(&mut good, &[Message::Window(Window::default())]);
        assert!(matches!(next(&mut trace).await[..], [Traced::Work(_)]));
        drop(good);
        let pending = timeout(Duration::from_millis(100), trace.next()).await;
        assert!(pending.is_err() && trace.programs.is_empty(), "{pending:?}");
    });
}

/// What was on its way when the program ended is taken, whole messages of it.
#[test]
fn the_last_words_of_a_program_count() {
    runtime().block_on(async {
        let mut trace = Trace::new(EVERY);
        let mut program = connected(&mut trace);
        send(&mut program, &vec![Message::Window(Window::default()); 1_000]);
        io::Write::write_all(&mut program, &[4, 0]).expect("it is connected");
        drop(program);
        assert_eq!(trace.last().len(), 1_000);
        assert!(trace.last().is_empty());
    });
}
