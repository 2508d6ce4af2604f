//! A user account, made for a test and removed with it, which may become root by sudo or doas without a
//! password.
//!
//! Yields [`Person`], which starts programs. What this machine lacks is reported, and the test skipped.

use std::{
    ffi::{CString, OsStr},
    os::unix::fs::{OpenOptionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use nix::unistd::{Gid, User};

use crate::{
    ground::{Ground, skipped},
    running::Start,
};

/// Only one process at a time may change the user database.
static USERS: Mutex<()> = Mutex::new(());
/// There is one file of rules for doas.
static DOAS: Mutex<()> = Mutex::new(());
static MADE: AtomicU32 = AtomicU32::new(0);
const DOAS_RULES: &str = "/etc/doas.conf";

pub(crate) struct Person {
    pub(crate) user: User,
    groups: Vec<Gid>,
    home: PathBuf,
    /// Rule files to remove, with the lock of those that all tests share.
    rules: Vec<(PathBuf, Option<MutexGuard<'static, ()>>)>,
}

fn command(program: &str, words: &[&str]) -> std::io::Result<Output> {
    Command::new(program).args(words).output()
}

/// The reason why a command failed; none if it succeeded.
fn failure(output: std::io::Result<Output>) -> Option<String> {
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")),
        Err(error) => Some(error.to_string()),
    }
}

fn lock(mutex: &'static Mutex<()>) -> MutexGuard<'static, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Person {
    /// Makes the user, with a home in the test's folder; none, with a note on stdout, if that is impossible.
    pub(crate) fn new(ground: &Ground, test: &str) -> Option<Self> {
        let name = format!("gs-e2e-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
        let home = ground.path(&name);
        let made = {
            let _lock = lock(&USERS);
            let home = home.to_string_lossy();
            // Another group beside their own.
            let words =
                ["--no-create-home", "--home-dir", &home, "--shell", "/bin/sh", "--groups", "users", &name];
            failure(command("useradd", &words))
        };
        if let Some(why) = made {
            skipped(test, &format!("no user can be made: {why}"));
            return None;
        }
        let user = User::from_name(&name).ok().flatten().expect("it was made");
        let of_name = CString::new(name).expect("it has no zeros");
        let groups = nix::unistd::getgrouplist(&of_name, user.gid).expect("groups can be listed");
        std::fs::create_dir(&home).expect("the folder is ours");
        let person = Self { user, groups, home, rules: Vec::new() };
        person.give(Path::new(""));
        Some(person)
    }

    /// Allows sudo from now on; none if sudo is missing.
    pub(crate) fn with_sudo(mut self, test: &str) -> Option<Self> {
        let rule = Path::new("/etc/sudoers.d").join(&self.user.name);
        let text = format!("{} ALL=(ALL:ALL) NOPASSWD:SETENV: ALL\n", self.user.name);
        self.rule(&rule, &text, None);
        self.try_out(test, &["sudo", "-n", "true"])
    }

    /// Allows doas from now on; none if doas is missing.
    pub(crate) fn with_doas(mut self, test: &str) -> Option<Self> {
        let turn = lock(&DOAS);
        if Path::new(DOAS_RULES).exists() {
            skipped(test, "doas has rules here already");
            return None;
        }
        let text = format!("permit nopass {}\n", self.user.name);
        self.rule(Path::new(DOAS_RULES), &text, Some(turn));
        self.try_out(test, &["doas", "-n", "true"])
    }

    fn rule(&mut self, path: &Path, text: &str, turn: Option<MutexGuard<'static, ()>>) {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o440).open(path);
        // The folder exists only where the program is installed.
        if let Ok(mut file) = file {
            self.rules.push((path.to_owned(), turn));
            file.write_all(text.as_bytes()).expect("the disk has room");
        }
    }

    fn try_out(self, test: &str, words: &[&str]) -> Option<Self> {
        let Ok(program) = guestscope::child::resolve(words[0]) else {
            skipped(test, &format!("no program {}", words[0]));
            return None;
        };
        let done = self.start(program).words(&words[1..]).finish();
        if done.code() != 0 {
            skipped(test, &format!("{} does not work here: {}", words[0], done.stderr.trim()));
            return None;
        }
        Some(self)
    }

    /// IDs of the user's groups, as the kernel shows them.
    pub(crate) fn groups(&self) -> String {
        let mut numbers: Vec<u32> = self.groups.iter().map(|group| group.as_raw()).collect();
        numbers.sort_unstable();
        numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }

    /// A path in their home.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.home.join(name)
    }

    /// Makes them the owner of a file in their home.
    pub(crate) fn give(&self, name: impl AsRef<Path>) {
        let (uid, gid) = (self.user.uid.as_raw(), self.user.gid.as_raw());
        chown(self.path(name), Some(uid), Some(gid)).expect("root may");
    }

    /// Makes a file that they own.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).expect("the folder can be written");
        self.give(name);
        self.path(name)
    }

    /// A program that they start in their home.
    pub(crate) fn start(&self, program: impl AsRef<OsStr>) -> Start {
        let (uid, gid, groups) = (self.user.uid, self.user.gid, self.groups.clone());
        Start::new(&self.home, program.as_ref().as_ref()).before(move || {
            nix::unistd::setgroups(&groups)?;
            nix::unistd::setgid(gid)?;
            Ok(nix::unistd::setuid(uid)?)
        })
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        for (rule, _) in &self.rules {
            let _ = std::fs::remove_file(rule);
        }
        let _lock = lock(&USERS);
        // A user with a running process cannot be removed; this is reported.
        if let Some(why) = failure(command("userdel", &[&self.user.name])) {
            eprintln!("user {} stays: {why}", self.user.name);
        }
    }
}
