//! The ordinary user who started the agent as root by sudo, doas or pkexec, from the variables that these
//! set.
//!
//! They are used only if the agent runs as root: so a forged variable can only take root away. If two
//! variables name different users, one of them is left over from an earlier change to root, and it is unknown
//! which one: that is refused.

use std::{
    ffi::{CString, OsString},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use nix::unistd::{Gid, Uid, User, getgrouplist, getppid};

use super::error::ChildError;
use crate::{guarded::Owner, tasks};

/// The user as which the program is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAs {
    /// User.
    pub uid: Uid,
    /// Group.
    pub gid: Gid,
    pub(super) groups: Vec<Gid>,
    pub(super) environment: Vec<(&'static str, OsString)>,
}

/// The user by the environment.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    uid: u32,
    /// Group, if the environment names it.
    gid: Option<u32>,
    /// Name, if the environment gives it; a user of a directory service (LDAP) is in no file.
    name: Option<String>,
    home: Option<String>,
}

/// Most ancestors searched for the groups of a user who is in no file.
const ANCESTORS: usize = 16;

impl RunAs {
    /// The user who called sudo, doas or pkexec; none if this process is not root's, was started by none of
    /// them, or by root.
    ///
    /// # Errors
    /// That user is unknown, or it is unclear which one it is.
    pub fn invoking_user() -> Result<Option<Self>, ChildError> {
        if !nix::unistd::geteuid().is_root() {
            return Ok(None);
        }
        let number = |name: &str| User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        named(|name| std::env::var(name).ok(), number)?.map(Self::of).transpose()
    }

    fn of(named: Named) -> Result<Self, ChildError> {
        let unknown = || ChildError::UnknownUser(named.uid.to_string());
        let uid = Uid::from_raw(named.uid);
        let Some(user) = User::from_uid(uid).ok().flatten() else {
            let (name, gid) = (named.name.ok_or_else(unknown)?, named.gid.ok_or_else(unknown)?);
            let home = named.home.map_or_else(|| PathBuf::from("/"), PathBuf::from);
            let gid = Gid::from_raw(gid);
            let groups = groups_above(named.uid).unwrap_or_else(|| vec![gid]);
            return Ok(Self { uid, gid, groups, environment: environment(&name, home, None) });
        };
        let gid = named.gid.map_or(user.gid, Gid::from_raw);
        let name = CString::new(user.name.clone()).map_err(|_| unknown())?;
        let groups = getgrouplist(&name, gid).unwrap_or_else(|_| vec![gid]);
        Ok(Self { uid, gid, groups, environment: environment(&user.name, user.dir, Some(user.shell)) })
    }
}

impl RunAs {
    /// The owner of the files that the agent makes for this user.
    pub fn owner(&self) -> Owner {
        let groups = self.groups.iter().map(|group| group.as_raw()).collect();
        Owner { uid: self.uid.as_raw(), gid: self.gid.as_raw(), groups }
    }
}

/// Makes a new file, for its owner alone, with the rights of the user who called sudo: permission to call
/// this program by sudo is not permission to write root's files.
///
/// # Errors
/// That user may not, or it is unclear which one it is.
pub fn create_file(path: &Path) -> io::Result<File> {
    let owner = RunAs::invoking_user().map_err(io::Error::other)?.map(|user| user.owner());
    let _rights = owner.as_ref().map(Owner::assume).transpose()?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Groups of the nearest process above this one that is the user's: those of the session.
fn groups_above(uid: u32) -> Option<Vec<Gid>> {
    let status = |pid: &str| tasks::status(format!("/proc/{pid}").as_ref()).ok();
    let first = status(&getppid().to_string());
    let parent = |below: &String| status(tasks::field(below, "PPid")?);
    let mut above = std::iter::successors(first, parent).take(ANCESTORS);
    // The real user's number comes first.
    let number = |status: &String| tasks::field(status, "Uid")?.split_whitespace().next()?.parse().ok();
    let theirs = above.find(|status| number(status) == Some(uid))?;
    let groups = tasks::field(&theirs, "Groups")?.split_whitespace();
    Some(groups.filter_map(|group| group.parse().ok()).map(Gid::from_raw).collect())
}

/// Variables of root's environment, changed to the user's values. Where root's has no mailbox, the user needs
/// none.
fn environment(name: &str, home: PathBuf, shell: Option<PathBuf>) -> Vec<(&'static str, OsString)> {
    let mut all = vec![("HOME", home.into_os_string()), ("USER", name.into()), ("LOGNAME", name.into())];
    all.extend(shell.filter(|shell| shell.is_absolute()).map(|shell| ("SHELL", shell.into_os_string())));
    if std::env::var_os("MAIL").is_some() {
        all.push(("MAIL", format!("/var/mail/{name}").into()));
    }
    all
}

/// The user named, if it is one other than root. `number` gives the number of a user's name.
fn named(
    variable: impl Fn(&str) -> Option<String>,
    number: impl Fn(&str) -> Option<u32>,
) -> Result<Option<Named>, ChildError> {
    let is_set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let numeric = |name: &str| -> Result<Option<u32>, ChildError> {
        let parse = |value: String| value.parse().map_err(|_| ChildError::UnknownUser(value));
        is_set(name).map(parse).transpose()
    };
    let by_doas = |name: String| number(&name).ok_or(ChildError::UnknownUser(name));
    let sudo = numeric("SUDO_UID")?;
    let all = [
        ("SUDO_UID", sudo),
        ("DOAS_USER", is_set("DOAS_USER").map(by_doas).transpose()?),
        ("PKEXEC_UID", numeric("PKEXEC_UID")?),
    ];
    let mut told = all.iter().filter_map(|&(variable, uid)| Some((variable, uid?)));
    let Some((first, uid)) = told.next() else { return Ok(None) };
    if let Some((second, other)) = told.find(|&(_, other)| other != uid) {
        let words = format!("{first} says {uid}, {second} says {other}");
        return Err(ChildError::UnclearUser(words));
    }
    let (gid, name, home) = if sudo.is_some() {
        (numeric("SUDO_GID")?, is_set("SUDO_USER"), is_set("SUDO_HOME").filter(|home| home.starts_with('/')))
    } else {
        (None, None, None)
    };
    Ok((uid != 0).then_some(Named { uid, gid, name, home }))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing(&[], Ok(None))]
    #[case::sudo(&[("SUDO_UID", "1000"), ("SUDO_GID", "1001")], Ok(Some((1000, Some(1001)))))]
    #[case::no_group(&[("SUDO_UID", "1000")], Ok(Some((1000, None))))]
    #[case::sudo_by_root(&[("SUDO_UID", "0"), ("SUDO_GID", "0")], Ok(None))]
    #[case::doas(&[("DOAS_USER", "ada")], Ok(Some((1000, None))))]
    #[case::doas_by_root(&[("DOAS_USER", "root")], Ok(None))]
    #[case::pkexec(&[("PKEXEC_UID", "1000")], Ok(Some((1000, None))))]
    #[case::the_same_twice(&[("SUDO_UID", "1000"), ("DOAS_USER", "ada")], Ok(Some((1000, None))))]
    #[case::a_group_that_was_told_by_another(&[("DOAS_USER", "ada"), ("SUDO_GID", "0")], Ok(Some((1000, None))))]
    #[case::two(&[("SUDO_UID", "1001"), ("DOAS_USER", "ada")], Err("SUDO_UID says 1001, DOAS_USER says 1000"))]
    #[case::root_and_another(&[("SUDO_UID", "0"), ("PKEXEC_UID", "7")], Err("SUDO_UID says 0, PKEXEC_UID says 7"))]
    #[case::no_number(&[("SUDO_UID", "ada")], Err("ada"))]
    #[case::negative(&[("PKEXEC_UID", "-1")], Err("-1"))]
    #[case::no_user(&[("DOAS_USER", "eve")], Err("eve"))]
    #[case::empty(&[("SUDO_UID", ""), ("DOAS_USER", "")], Ok(None))]
    fn the_caller_is_named_by_the_way_to_root(
        #[case] variables: &[(&str, &str)],
        #[case] expected: Result<Option<(u32, Option<u32>)>, &str>,
    ) {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let number =
            |name: &str| [("ada", 1000), ("root", 0)].iter().find(|user| user.0 == name).map(|user| user.1);
        let found = named(variable, number).map(|named| named.map(|named| (named.uid, named.gid)));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(ChildError::UnknownUser(found) | ChildError::UnclearUser(found)), Err(expected)) => {
                assert_eq!(found, expected);
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }
}
