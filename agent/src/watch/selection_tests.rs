//! The choice of processes: by what they are, and where one of them holds up the look or has gone.

use std::process::{Child, Command};

use guestscope_kernel::attach::Candidate;
use rstest::rstest;

use super::*;
use crate::watch::{
    shared::{List, Status},
    tables::Config,
};

fn selection() -> Selection {
    Selection::new(Shared::new(Config::default(), Status::default(), List::default()))
}

/// Living processes by ascending number.
fn sleepers() -> [Child; 3] {
    let mut children = [(); 3].map(|()| Command::new("sleep").arg("1000").spawn().expect("it is installed"));
    children.sort_unstable_by_key(Child::id);
    children
}

fn end(mut children: [Child; 3]) {
    for child in &mut children {
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }
}

fn chosen(selection: &Selection) -> Vec<u32> {
    selection.seen.iter().filter(|(_, seen)| seen.is_chosen).map(|(pid, _)| *pid).collect()
}

fn numbers_of(due: Vec<(u32, u64)>) -> Vec<u32> {
    due.into_iter().map(|(pid, _)| pid).collect()
}

#[test]
fn one_that_holds_up_a_look_is_passed_over_and_others_have_their_turn() {
    let children = sleepers();
    let [first, second, third] = [0, 1, 2].map(|index: usize| children[index].id());
    let there = HashSet::from([first, second, third]);
    let (mut selection, now) = (selection(), Instant::now());
    let due = selection.due(&there, now);
    let answers = Arc::new(Mutex::new(Answers::new(now)));
    assert!(locked(&answers).add(first, true, now));
    let later = now + LIMIT;
    selection.take_in(&due, &answers, Err(NoAnswer::Late), later);
    assert_eq!(chosen(&selection), [first]);
    assert!(selection.rests_until > later);
    selection.forget(&there, later);
    assert_eq!(numbers_of(selection.due(&there, later)), [third]);
    // It does answer in the end: it has its turns again, and its thread ends.
    assert!(!locked(&answers).add(second, true, later));
    let later = later + LONGEST;
    selection.forget(&there, later);
    assert!(selection.passed_over.is_empty());
    assert_eq!(numbers_of(selection.due(&there, later)), [third, first, second]);
    end(children);
}

#[rstest]
#[case::slow_as_a_whole(LIMIT / 4, NoAnswer::Late)]
#[case::too_many_others_wait(LIMIT, NoAnswer::Busy)]
fn a_look_that_none_holds_up_passes_over_none(#[case] since_the_last: Duration, #[case] why: NoAnswer) {
    let children = sleepers();
    let there: HashSet<u32> = children.iter().map(Child::id).collect();
    let (mut selection, now) = (selection(), Instant::now());
    let due = selection.due(&there, now);
    let answers = Arc::new(Mutex::new(Answers::new(now)));
    selection.take_in(&due, &answers, Err(why), now + since_the_last);
    assert!(selection.passed_over.is_empty());
    assert_eq!(selection.due(&there, now), due);
    end(children);
}

#[test]
fn another_process_of_the_same_number_is_a_new_one() {
    let (mut selection, now, own) = (selection(), Instant::now(), std::process::id());
    let (there, inode) = (HashSet::from([own]), inode(own).expect("it lives"));
    selection.note((own, inode), true, now);
    selection.forget(&there, now);
    assert_eq!((chosen(&selection), selection.due(&there, now).len()), (vec![own], 0));
    selection.note((own, inode + 1), true, now);
    selection.forget(&there, now);
    assert_eq!((chosen(&selection).len(), selection.due(&there, now)), (0, vec![(own, inode)]));
    // One that is not chosen is found out when its turn comes.
    selection.note((own, inode + 1), false, now);
    selection.forget(&there, now);
    assert_eq!(selection.seen.len(), 1);
    selection.forget(&there, now + LONGEST);
    assert!(selection.seen.is_empty());
}

#[test]
fn what_waiting_does_not_help_is_told() {
    let web = Candidate { id: "web1".to_owned(), name: None, owner: 0 };
    assert!(may_come(&TargetError::NotRunning(web.clone())));
    let there = vec![web.clone(), Candidate { id: "web2".to_owned(), ..web }];
    assert!(!may_come(&TargetError::Ambiguous { wanted: "web".to_owned(), there }));
}

#[rstest]
#[case("/usr/bin/web", "/usr/bin/web", true)]
#[case("/usr/bin/web (deleted)", "/usr/bin/web", true)]
#[case("/usr/bin/web (deleted)", "*/web", true)]
#[case("/usr/bin/web (deleted)", "/usr/bin/web (deleted)", true)]
#[case("/usr/bin/web2 (deleted)", "/usr/bin/web", false)]
fn a_file_that_was_replaced_fits(#[case] link: &str, #[case] pattern: &str, #[case] fits: bool) {
    assert_eq!(fits_file(link.as_bytes(), pattern), fits);
}

#[rstest]
#[case("/system.slice/web.service", "system.slice/web.service", true)]
#[case("/system.slice/web.service/inner", "/system.slice/web.service", true)]
#[case("/system.slice/web.service2", "system.slice/web.service", false)]
#[case("/kubepods/burstable/pod1/abc", "kubepods/*/pod1", true)]
#[case("/", "a", false)]
fn groups(#[case] group: &str, #[case] pattern: &str, #[case] is_inside: bool) {
    assert_eq!(is_in(group.as_bytes(), pattern), is_inside);
}

#[test]
fn a_process_is_chosen_by_all_that_is_given() {
    let own = std::process::id();
    let program = |text: &str| -> Vec<Program> { vec![toml::from_str(text).expect("it is a table")] };
    let fits = |text: &str| is_chosen(own, &program(text), &HashMap::new(), &MarkedFiles::default());
    assert!(fits("executable = '*'"));
    assert!(fits("executable = '*deps*'\ncommand = '*'"));
    assert!(!fits("executable = '*deps*'\ncommand = 'no such command'"));
    assert!(!fits("container = 'web'"));
    assert!(!fits("marked = true"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has one").port();
    assert!(fits(&format!("port = {port}")));
    drop(listener);
    assert!(!fits(&format!("port = {port}")));
}
