//! Requests of a Go server, by its port: they are where the goroutine is that has received them.

use std::time::Duration;

use guestscope::phase::{Phase, PhaseKind};
use guestscope_contract::{Account, Source};

use crate::{
    folder::Seen,
    requests::{Server, in_order, port, served_with},
};

/// Asks a server for one path, and returns the time until the answer, and what was seen.
fn asked(test: &str, options: &[&str], path: &str) -> Option<(Duration, Seen)> {
    let asked = served_with(test, options, (&Server::Go, port), |address| address.connect().ask(path));
    let (asked, seen, done) = asked?;
    let mut losses = done.losses();
    // The program ends inside what serves the connection of the request that ends it.
    losses.retain(|loss| *loss != ("pairing_unended_phases".to_owned(), 1) || options.is_empty());
    assert!(losses.is_empty(), "{losses:?}");
    Some((asked, seen))
}

/// It took some 200 ms, nearly all of it on no thread, while others computed for half of that.
fn assert_was_away(phase: &Phase, asked: Duration) {
    let [took, suspended] = [phase.duration_ns, phase.suspended_ns].map(Duration::from_nanos);
    assert!(took <= asked + Duration::from_millis(50), "{took:?} of {asked:?}");
    assert!(took >= Duration::from_millis(200) && suspended >= Duration::from_millis(180), "{phase:?}");
    assert!(phase.accounts.get(Account::Cpu) < phase.suspended_ns / 4, "{phase:?}");
}

/// What other goroutines do on its thread between two parts is not the request's.
#[test]
fn what_is_answered_in_parts_has_no_time_of_others() {
    let test = "goroutine_requests::what_is_answered_in_parts_has_no_time_of_others";
    let Some((asked, seen)) = asked(test, &[], "/stream/20") else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 2, "and the one that ends it");
    assert_was_away(requests[0].root(), asked);
}

/// The same within a function that waits for the parts: request and function leave the thread together.
#[test]
fn so_it_has_with_a_function_inside() {
    let test = "goroutine_requests::so_it_has_with_a_function_inside";
    let options = ["--phase", "stream=program:main.stream"];
    let Some((asked, seen)) = asked(test, &options, "/stream/20") else { return };
    let requests = in_order(&seen);
    let root = requests[0].root();
    let stream = requests[0].phases.iter().find(|phase| phase.source == Source::Function);
    let stream = stream.unwrap_or_else(|| panic!("{requests:#?}"));
    assert_eq!((root.source, stream.parent), (Source::Socket, Some(root.id)));
    assert_was_away(root, asked);
    assert_was_away(stream, asked);
}

/// A function that serves a whole connection is around its requests, and leaves the thread with them.
#[test]
fn a_function_around_them_takes_them_along() {
    let test = "goroutine_requests::a_function_around_them_takes_them_along";
    let options = ["--phase", "serve=program:net/http.(*conn).serve"];
    let Some((asked, seen)) = asked(test, &options, "/idle/200") else { return };
    let serves = seen.named("serve");
    let mut within = serves.iter().flat_map(|serve| &serve.phases);
    let slept = within.find(|phase| phase.source == Source::Socket && phase.kind == PhaseKind::Phase);
    let slept = slept.unwrap_or_else(|| panic!("{serves:#?}"));
    assert_was_away(slept, asked);
}

/// A goroutine that hands its request to another one and ends takes nothing of it into the next one.
#[test]
fn one_that_ends_leaves_its_request() {
    let test = "goroutine_requests::one_that_ends_leaves_its_request";
    let Some((asked, seen)) = asked(test, &[], "/hijack/200") else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 2, "and the one that ends it");
    assert_was_away(requests[0].root(), asked);
}
