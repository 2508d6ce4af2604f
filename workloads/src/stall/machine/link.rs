//! A slow link: a veth pair between two network namespaces of its own, whose far end sends at a known rate
//! (qdisc tbf). Yields the near end's socket of a TCP connection over it, which any thread may use, and a
//! thread at the far end that serves the other socket.
//!
//! A namespace belongs to a thread: two threads of this process get one each, and the rest of the process
//! stays. Nothing has a name outside of them, so nothing is left behind, however the process ends. `ip` and
//! `tc` of iproute2 do the work.

use std::{
    ffi::OsStr,
    io,
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, Sender},
    thread::Builder,
};

use super::partner::Partner;
use crate::stall::error::StallError;

/// Addresses of both ends, from a network reserved for documentation.
const NEAR: &str = "192.0.2.1";
const FAR: &str = "192.0.2.2";
const PREFIX: &str = "/30";
/// Queue of the link: more than TCP keeps there.
const LIMIT: &str = "16mb";

/// Rate of the link.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub bytes_per_second: u64,
    /// Bytes that the link sends at once after a pause.
    pub burst_bytes: u64,
}

/// Next order to the far end.
#[derive(Debug)]
enum Order {
    /// Its device is there: listen for a connection.
    SetUp,
    /// The near end has connected.
    Serve,
}

/// A thread's number, or a port.
type Answer = Result<u32, StallError>;

/// The link. The socket is closed before the thread at its other end is joined.
#[derive(Debug)]
pub struct Link {
    pub socket: TcpStream,
    _far: Partner<Order, Answer>,
}

impl Link {
    /// Makes the link. `serve` has the far end's socket, until the near one is closed.
    pub fn create(rate: Rate, serve: impl FnOnce(TcpStream) + Send + 'static) -> Result<Self, StallError> {
        let far = Partner::start("far end", move |orders, answers| far_end(rate, &orders, &answers, serve))?;
        let thread = far.answer()??;
        let near = move || -> Result<(TcpStream, Partner<Order, Answer>), StallError> {
            own_network()?;
            let number = thread.to_string();
            run("ip", ["link", "add", "near", "type", "veth", "peer", "name", "far", "netns", &number])?;
            set_up("near", NEAR)?;
            far.order(Order::SetUp)?;
            let port = far.answer()??;
            let port = u16::try_from(port).unwrap_or_default();
            let socket = TcpStream::connect((FAR, port)).map_err(StallError::call("connect"))?;
            far.order(Order::Serve)?;
            Ok((socket, far))
        };
        // In a thread of its own: it cannot return to the namespace that it leaves.
        let name = "near end";
        let thread = Builder::new().name(name.to_owned()).spawn(near);
        let thread = thread.map_err(|source| StallError::Thread { name, source })?;
        let made = thread.join().map_err(|_| StallError::PartnerGone { name: name.to_owned() })?;
        made.map(|(socket, far)| Self { socket, _far: far })
    }
}

fn far_end(rate: Rate, orders: &Receiver<Order>, answers: &Sender<Answer>, serve: impl FnOnce(TcpStream)) {
    // SAFETY: takes nothing.
    let thread = own_network().map(|()| unsafe { libc::gettid() }.unsigned_abs());
    // If the near end has failed, there is no receiver and nothing to do.
    if answers.send(thread).is_err() || !matches!(orders.recv(), Ok(Order::SetUp)) {
        return;
    }
    let listener = match listen(rate) {
        Ok((listener, port)) => {
            let _ = answers.send(Ok(u32::from(port)));
            listener
        }
        Err(error) => {
            let _ = answers.send(Err(error));
            return;
        }
    };
    // The connection is made before it is accepted, so accept never waits for one that does not come.
    if matches!(orders.recv(), Ok(Order::Serve))
        && let Ok((socket, _)) = listener.accept()
    {
        serve(socket);
    }
}

/// Puts the calling thread into a network namespace of its own.
fn own_network() -> Result<(), StallError> {
    // SAFETY: takes a flag only.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(StallError::NetworkNamespace { source: io::Error::last_os_error() }),
    }
}

fn set_up(device: &str, address: &str) -> Result<(), StallError> {
    run("ip", ["address", "add", &format!("{address}{PREFIX}"), "dev", device])?;
    run("ip", ["link", "set", device, "up"])
}

/// Shapes the far device to the rate, and listens there.
fn listen(rate: Rate) -> Result<(TcpListener, u16), StallError> {
    set_up("far", FAR)?;
    let (per_second, burst) = (format!("{}bps", rate.bytes_per_second), format!("{}b", rate.burst_bytes));
    let words = ["rate", &per_second, "burst", &burst, "limit", LIMIT];
    run("tc", ["qdisc", "add", "dev", "far", "root", "tbf"].into_iter().chain(words))?;
    let listener = TcpListener::bind((FAR, 0)).map_err(StallError::call("bind"))?;
    let port = listener.local_addr().map_err(StallError::call("getsockname"))?.port();
    Ok((listener, port))
}

/// Runs a tool in the calling thread's namespace.
fn run<W: AsRef<OsStr>>(tool: &'static str, words: impl IntoIterator<Item = W>) -> Result<(), StallError> {
    let done = Command::new(tool).args(words).stdin(Stdio::null()).output();
    let done = done.map_err(|source| StallError::NoTool { tool, source })?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(StallError::Tool { tool, said: said.lines().next().unwrap_or("it says nothing").to_owned() })
}
