//! A network for the parts of one training: a namespace each, joined by a bridge in another namespace, every
//! port shaped in both directions.
//!
//! Yields the workload's options that put its parts there. The machine's own network does not change. Bridge,
//! veth and tbf are the kernel's; `ip` and `tc` of iproute2 set them up.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{
    mark::{is_of_dead, name},
    plan::Workload,
};
use crate::command;

/// Folder in which iproute2 keeps named namespaces; containers see it, too.
pub(super) const NAMESPACES: &str = "/run/netns";
/// The network of all addresses: one reserved for benchmarks (RFC 2544).
const NETWORK: &str = "198.18.0";
/// Bytes that a port sends at once after a pause: a few of the kernel's largest packets.
const BURST: &str = "256kb";
/// Packets that wait longer than this for a port are dropped, as a switch does.
const LATENCY: &str = "50ms";
/// The bridge's own namespace, and the bridge.
const HUB: &str = "hub";
/// Interface of a part; must not be a keyword of `ip`.
const WAY: &str = "way0";

/// The namespaces of a lab's current run, removed on drop.
pub(super) struct Link(Vec<String>);

impl Link {
    /// Network of a workload, if its parts are to be linked.
    pub(super) fn of(workload: &Workload) -> Result<Option<Self>> {
        let parts = workload.workers().map_or(1, |workers| workers + 1);
        workload.link_mbit.map(|mbit| Self::prepare(parts, mbit)).transpose()
    }

    /// A network for this many parts. The value owns the namespaces; [`Link::set_up`] makes them.
    fn prepare(parts: u32, mbit: u32) -> Result<Self> {
        let names = (0..parts).map(|part| name(&part.to_string())).chain([name(HUB)]);
        let link = Self(names.collect());
        remove_abandoned();
        link.set_up(mbit).context("network namespaces")?;
        Ok(link)
    }

    fn set_up(&self, mbit: u32) -> Result<()> {
        let Some((hub, parts)) = self.0.split_last() else { return Ok(()) };
        for name in &self.0 {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "dev", "lo", "up"])?;
        }
        ip(&["-n", hub, "link", "add", "name", HUB, "type", "bridge"])?;
        ip(&["-n", hub, "link", "set", "dev", HUB, "up"])?;
        for (index, part) in parts.iter().enumerate() {
            let (port, address) = (format!("port{index}"), format!("{NETWORK}.{}/24", index + 1));
            ip(&[
                "-n", hub, "link", "add", "name", &port, "type", "veth", "peer", "name", WAY, "netns", part,
            ])?;
            ip(&["-n", part, "address", "add", &address, "dev", WAY])?;
            for (namespace, device) in [(part, WAY), (hub, port.as_str())] {
                let rate = format!("{mbit}mbit");
                let tbf = ["tbf", "rate", &rate, "burst", BURST, "latency", LATENCY];
                tool("tc", &[&["-n", namespace, "qdisc", "add", "dev", device, "root"][..], &tbf].concat())?;
            }
            ip(&["-n", hub, "link", "set", "dev", &port, "master", HUB, "up"])?;
            ip(&["-n", part, "link", "set", "dev", WAY, "up"])?;
        }
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for name in &self.0 {
            // Fails for namespaces that were never made.
            let _ = command::text(Command::new("ip").args(["netns", "delete", name]));
        }
    }
}

/// Options to append to the workload's: the server's address, and the command by which a part enters its
/// namespace.
pub(super) fn options(workload: &Workload) -> Vec<String> {
    if workload.link_mbit.is_none() {
        return Vec::new();
    }
    let through = format!("nsenter --net={NAMESPACES}/{}", name("{}"));
    ["--listen".to_owned(), format!("{NETWORK}.1:0"), "--through".to_owned(), through].into()
}

/// Removes namespaces that killed labs left.
fn remove_abandoned() {
    let Ok(namespaces) = fs::read_dir(NAMESPACES) else { return };
    let names = namespaces.flatten().map(|namespace| namespace.file_name().to_string_lossy().into_owned());
    // A namespace that stays does no harm.
    names.filter(|name| is_of_dead(name)).for_each(|name| drop(tool("ip", &["netns", "delete", &name])));
}

fn ip(words: &[&str]) -> Result<()> {
    tool("ip", words)
}

fn tool(program: &str, words: &[&str]) -> Result<()> {
    let what = || format!("{program} {}", words.join(" "));
    let output = Command::new(program).args(words).output().with_context(what)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", what(), said.lines().next().unwrap_or("it says nothing"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
        path::Path,
        sync::mpsc::channel,
        thread,
        time::Instant,
    };

    use nix::sched::{CloneFlags, setns};

    use super::{Link, NAMESPACES, ip, options, remove_abandoned};
    use crate::{
        command,
        lab::{mark::tests::of_dead_and_of_living, plan::Kind, run::tests::cell},
    };

    /// Moves the calling thread into a namespace for good.
    fn enter(namespace: &str) {
        let file = File::open(Path::new(NAMESPACES).join(namespace)).unwrap();
        setns(file, CloneFlags::CLONE_NEWNET).unwrap();
    }

    #[test]
    fn only_what_is_linked_has_options() {
        let mut workload = cell(Kind::Machine, false).workload;
        assert_eq!(options(&workload), [""; 0]);
        workload.link_mbit = Some(1000);
        let words = options(&workload).join(" ");
        assert!(
            words.starts_with("--listen 198.18.0.1:0 --through nsenter --net=/run/netns/guestscope-lab-"),
            "{words}"
        );
        assert!(words.ends_with("-{}"), "{words}");
    }

    #[test]
    fn what_a_killed_lab_left_goes_with_the_next_one() {
        if !nix::unistd::geteuid().is_root() || command::find("ip").is_none() {
            let mut out = std::io::stdout();
            let _ = writeln!(out, "skipped: link: making namespaces needs root, and ip of iproute2");
            return;
        }
        let [of_dead, of_living] = of_dead_and_of_living().map(|name| format!("{name}-test"));
        for name in [&of_dead, &of_living] {
            ip(&["netns", "add", name]).unwrap();
        }
        remove_abandoned();
        let is_there = |name: &str| Path::new(NAMESPACES).join(name).exists();
        let there = (is_there(&of_dead), is_there(&of_living));
        ip(&["netns", "delete", &of_living]).unwrap();
        assert_eq!(there, (false, true));
    }

    /// The token bucket is full at first; after it, data cannot be faster than the rate, however slow the
    /// machine is.
    #[test]
    fn parts_reach_each_other_no_faster_than_their_link() {
        const MBIT: u32 = 40;
        const BYTES: usize = 3 << 20;
        const AT_ONCE: usize = 512 << 10;
        if !nix::unistd::geteuid().is_root() || command::find("tc").is_none() {
            let mut out = std::io::stdout();
            let _ = writeln!(out, "skipped: link: making namespaces needs root, and tc of iproute2");
            return;
        }
        let link = Link::prepare(2, MBIT).unwrap();
        let names = link.0.clone();
        let (listening, address) = channel();
        let server = names[0].clone();
        let server = thread::spawn(move || {
            enter(&server);
            let listener = TcpListener::bind("198.18.0.1:0").unwrap();
            listening.send(listener.local_addr().unwrap()).unwrap();
            let (mut socket, _) = listener.accept().unwrap();
            let mut bytes = Vec::new();
            socket.read_to_end(&mut bytes).unwrap();
            bytes.len()
        });
        let client = names[1].clone();
        let client = thread::spawn(move || {
            enter(&client);
            let mut socket = TcpStream::connect(address.recv().unwrap()).unwrap();
            let start = Instant::now();
            socket.write_all(&vec![0; BYTES]).unwrap();
            drop(socket);
            start
        });
        let start = client.join().unwrap();
        assert_eq!(server.join().unwrap(), BYTES);
        let least_s = (BYTES - AT_ONCE) as f64 * 8.0 / f64::from(MBIT) / 1e6;
        assert!(start.elapsed().as_secs_f64() > least_s, "{:?}", start.elapsed());
        drop(link);
        assert!(names.iter().all(|name| !Path::new(NAMESPACES).join(name).exists()));
    }
}
