//! A resident agent and the subject of slow requests, in a test's folder.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Stdio,
};

use guestscope::folder::Folder;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    ground::{Ground, eventually, subject},
    running::{Running, Start},
};

/// Requests of more than 200 ms are incidents of some seconds.
pub(crate) const SLOW: &str = "[[triggers]]\nrequest = 'request'\nslower_than = '200ms'\n\
                    [incidents]\nbefore = '3s'\nafter = '1s'\n";

/// A resident agent's place in a test's folder.
pub(crate) struct Resident {
    pub(crate) ground: Ground,
}

impl Resident {
    pub(crate) fn new(test: &str) -> Option<Self> {
        Ground::new(test).map(|ground| Self { ground })
    }

    /// Writes the configuration: the subject is selected by `command`.
    pub(crate) fn configure(&self, command: &str, more: &str) {
        self.configure_in(&self.ground.path("watch"), command, more);
    }

    /// The same, with another directory of the agent.
    pub(crate) fn configure_in(&self, directory: &Path, command: &str, more: &str) {
        let socket = self.ground.path("watch.sock");
        // On a slow machine the agent would not look at every request, and miss the one that is made slow.
        let agent = if more.contains("[agent]") { "" } else { "[agent]\nsee_all = true\n" };
        let text = format!(
            "name = 'test'\ndirectory = '{}'\nsocket = '{}'\n\
             [[programs]]\nexecutable = '{}'\ncommand = '{command}'\n\
             [recorder]\nsegment = '1s'\nwindow = '2m'\n{more}{agent}",
            directory.display(),
            socket.display(),
            subject().display()
        );
        fs::write(self.ground.path("watch.toml"), text).expect("the folder is ours");
    }

    pub(crate) fn agent(&self, name: &str, options: &[&str]) -> Start {
        let file =
            |end: &str| fs::File::create(self.ground.path(&format!("{name}.{end}"))).expect("it is ours");
        let start = self.ground.command(&["watch", "--config"]).word(self.ground.path("watch.toml"));
        start.words(options).stdout(file("out")).stderr(file("err"))
    }

    /// Starts the agent, and waits until it watches.
    pub(crate) fn watch(&self, name: &str, options: &[&str]) -> Running {
        let running = self.agent(name, options).spawn();
        eventually("it watches", || self.said(name).contains("watching: ").then_some(()));
        running
    }

    pub(crate) fn said(&self, name: &str) -> String {
        fs::read_to_string(self.ground.path(&format!("{name}.err"))).unwrap_or_default()
    }

    pub(crate) fn ctl(&self, what: &str) -> Value {
        let socket = self.ground.path("watch.sock");
        let done = self.ground.command(&["ctl", what, "--json", "--socket"]).word(socket).finish().expect(0);
        serde_json::from_str(&done.stdout).expect("it is JSON")
    }

    /// The subject of slow requests; its notes go to a file of this name.
    pub(crate) fn program(&self, book: &str) -> Running {
        let program = Start::new(&self.ground.path(""), &subject()).words(&["spikes"]);
        let program = program.word(self.ground.path(&format!("{book}.slow")));
        let book = self.ground.path(book);
        program.environment("E2E_BOOK", book).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    }

    pub(crate) fn requests(&self, book: &str) -> usize {
        fs::read_to_string(self.ground.path(book)).map_or(0, |text| text.lines().count())
    }

    /// Waits for so many further requests.
    pub(crate) fn wait_for(&self, book: &str, more: usize) {
        let before = self.requests(book);
        eventually("requests", || (self.requests(book) >= before + more).then_some(()));
    }

    /// Waits until the agent has seen so many requests.
    pub(crate) fn wait_until_seen(&self, requests: u64) {
        eventually("seen", || (self.ctl("status")["requests"].as_u64() >= Some(requests)).then_some(()));
    }

    pub(crate) fn make_slow(&self, book: &str) {
        fs::write(self.ground.path(&format!("{book}.slow")), "").expect("the folder is ours");
        eventually("a slow request", || (!self.ground.path(&format!("{book}.slow")).exists()).then_some(()));
    }

    /// Starts another agent after the first one was killed: an incident that is asked for then has requests
    /// of both, and between them those that nobody saw.
    pub(crate) fn check_next_has_what_was_recorded(&self) {
        self.wait_for("book", 100);
        let agent = self.watch("next", &[]);
        self.wait_until_seen(100);
        assert_eq!(self.ctl("trigger")["triggered"], true);
        let path = eventually("it was kept", || {
            let list = self.ctl("incidents");
            let asked = list.as_array()?.iter().find(|one| one["trigger"] == "asked for")?;
            asked["folder"].as_str().filter(|path| !path.is_empty()).map(str::to_owned)
        });
        let explained = self.ground.command(&["explain"]).word(&path).finish().expect(0);
        // Words may stand on two lines.
        let words: Vec<&str> = explained.stdout.split_whitespace().collect();
        let is_told = words.join(" ").contains("of this time no agent recorded anything");
        assert!(is_told, "{}", explained.stdout);
        let folder = Folder::open(path).expect("it is a run folder");
        let requests = folder.requests().expect("it has some").map(|one| one.expect("it is whole"));
        let numbers: Vec<u64> = requests.map(|one| one.root().request).collect();
        // The kill cost what was seen in its last second, and the time until the next one watched.
        let gap = numbers.windows(2).map(|two| two[1].saturating_sub(two[0])).max();
        assert!(numbers.len() > 200 && gap >= Some(50), "{} requests, gap {gap:?}", numbers.len());
        agent.signal(Signal::SIGTERM);
        agent.finish().expect(0);
    }

    /// The incidents, the newest first, once there are so many that are complete.
    pub(crate) fn incidents(&self, many: usize) -> Vec<Value> {
        eventually("incidents", || {
            let list = self.ctl("incidents");
            let list = list.as_array().expect("it is a list").clone();
            let complete = list.iter().filter(|one| one["folder"] != "").count();
            (complete >= many).then_some(list)
        })
    }
}

/// Answers each POST with success, until the test ends.
pub(crate) fn taker(port: u16) {
    answer_all(port, "200 OK");
}

/// The same with this status.
pub(crate) fn answer_all(port: u16, status: &'static str) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free again");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
            loop {
                let (mut bytes, mut line) = (0, String::new());
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    let lower = line.to_ascii_lowercase();
                    bytes = lower
                        .strip_prefix("content-length:")
                        .map_or(bytes, |rest| rest.trim().parse().unwrap_or(0));
                    line.clear();
                }
                let read = std::io::copy(&mut reader.by_ref().take(bytes), &mut std::io::sink());
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                if bytes == 0 || read.is_err() || stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
}
