//! Chromium without a window, controlled over two pipes by the DevTools protocol.
//!
//! Yields [`Browser`]. It is ended by its process ID when the test is over, or after a minute.

use std::{
    fmt::Display,
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_mins(1);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: String,
    number: u64,
    /// Events that the page caused, console messages included.
    pub(crate) events: Vec<Value>,
    _home: TempDir,
}

impl Browser {
    /// Starts the browser; none, with a note on stdout, if it is not installed.
    pub(crate) fn start(test: &str) -> Option<Self> {
        let is_there =
            Command::new("chromium").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !is_there.is_ok_and(|status| status.success()) {
            // Written past libtest's capture, in the form that the project's test verb counts.
            let _ = writeln!(std::io::stdout(), "skipped: {test}: no chromium in PATH");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let pipes = ["to", "from"].map(|name| home.path().join(name));
        for pipe in &pipes {
            nix::unistd::mkfifo(pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        // Chromium reads from descriptor 3 and writes to descriptor 4.
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec chromium "$@" 3<"$TO" 4>"$FROM""#, "sh"]);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
        ]);
        command.args(["--disable-dev-shm-usage", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", home.path().join("profile").display()));
        command.env("TO", &pipes[0]).env("FROM", &pipes[1]).env("HOME", home.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let id = child.id();
        thread::spawn(move || {
            thread::sleep(LIMIT);
            // The pipes close with the browser, which ends the threads that read them.
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(id as i32),
                nix::sys::signal::Signal::SIGKILL,
            );
        });
        let to = OpenOptions::new().write(true).open(&pipes[0]).unwrap();
        let from = BufReader::new(File::open(&pipes[1]).unwrap());
        let mut browser =
            Self { child, to, from, session: String::new(), number: 0, events: Vec::new(), _home: home };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let answer = browser.call("Target.attachToTarget", &attached);
        answer["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    fn read(&mut self) -> Value {
        let mut line = Vec::new();
        self.from.read_until(0, &mut line).unwrap();
        assert_eq!(line.pop(), Some(0), "the browser went away, or took more than a minute");
        serde_json::from_slice(&line).unwrap()
    }

    /// Calls a DevTools method and gives its result.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut said = self.read();
            if said["id"] == self.number {
                assert!(said["error"].is_null(), "{method}: {}", said["error"]);
                return said["result"].take();
            }
            self.events.push(said);
        }
    }

    /// Opens a file, or an anchor in it, and waits until the page is loaded.
    pub(crate) fn open(&mut self, at: impl Display) {
        self.call("Page.navigate", &json!({ "url": format!("file://{at}") }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.read();
            self.events.push(event);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", &asked);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Fails if the page logged anything, or requested anything but this file.
    #[track_caller]
    pub(crate) fn assert_quiet(&self, file: &Path) {
        let complaints = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        let is_complaint = |event: &&Value| complaints.iter().any(|one| event["method"] == *one);
        let said: Vec<&Value> = self.events.iter().filter(is_complaint).collect();
        assert!(said.is_empty(), "{said:?}");
        let asked = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let asked: Vec<&str> =
            asked.map(|event| event["params"]["request"]["url"].as_str().unwrap()).collect();
        assert_eq!(asked, [format!("file://{}", file.display())]);
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str, code: u32, text: &str) {
        let event = |kind: &str, text: &str| json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        self.call("Input.dispatchKeyEvent", &event("keyDown", text));
        self.call("Input.dispatchKeyEvent", &event("keyUp", ""));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
