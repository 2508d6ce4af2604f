//! Requests of a Go server, by its port: they follow the goroutine that received them.

use std::time::Duration;

use guestscope::phase::{Phase, PhaseKind};
use guestscope_contract::{Account, Source};

use crate::{
    folder::Seen,
    requests::{Server, in_order, port, served_with},
};

/// Sends a request for one path to a server, and returns the time until the answer, and the run's content.
fn asked(test: &str, options: &[&str], path: &str) -> Option<(Duration, Seen)> {
    let asked = served_with(test, options, (&Server::Go, port), |address| address.connect().ask(path));
    let (asked, seen, done) = asked?;
    let mut losses = done.losses();
    // The server exits inside the function that serves the connection of the last request.
    losses.retain(|loss| *loss != ("pairing_unended_phases".to_owned(), 1) || options.is_empty());
    assert!(losses.is_empty(), "{losses:?}");
    Some((asked, seen))
}

/// The phase took some 200 ms, nearly all of it on no thread, while others computed for half of that time.
fn assert_was_away(phase: &Phase, asked: Duration) {
    let [took, suspended] = [phase.duration_ns, phase.suspended_ns].map(Duration::from_nanos);
    assert!(took <= asked + Duration::from_millis(50), "{took:?} of {asked:?}");
    assert!(took >= Duration::from_millis(200) && suspended >= Duration::from_millis(180), "{phase:?}");
    assert!(phase.accounts.get(Account::Cpu) < phase.suspended_ns / 4, "{phase:?}");
}

/// The work of other goroutines on its thread between two parts of the answer does not count for the request.
#[test]
fn what_is_answered_in_parts_has_no_time_of_others() {
    let test = "goroutine_requests::what_is_answered_in_parts_has_no_time_of_others";
    let Some((asked, seen)) = asked(test, &[], "/stream/20") else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 2, "and the one that ends it");
    assert_was_away(requests[0].root(), asked);
}

/// The same inside a function that waits for the parts: request and function leave the thread together.
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

/// A function that serves a whole connection contains its requests, and leaves the thread with them.
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

/// A goroutine that passes its request to another one and ends leaves nothing to the thread's next goroutine.
#[test]
fn one_that_ends_leaves_its_request() {
    let test = "goroutine_requests::one_that_ends_leaves_its_request";
    let Some((asked, seen)) = asked(test, &[], "/hijack/200") else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 2, "and the one that ends it");
    assert_was_away(requests[0].root(), asked);
}

/// While a handler runs, another goroutine of Go's library reads the first byte of the connection's next
/// request, and ends. The request belongs to the goroutine that reads the rest.
#[test]
fn one_that_read_a_single_byte_leaves_the_request_to_the_reader_of_the_rest() {
    let test = "goroutine_requests::one_that_read_a_single_byte_leaves_the_request_to_the_reader_of_the_rest";
    let options = ["--phase", "predict=program:main.predict:arg1"];
    let asked = served_with(test, &options, (&Server::Go, port), |address| {
        let mut client = address.connect();
        [client.ask("/early/50"), client.ask("/predict/1")]
    });
    let Some((_, seen, _)) = asked else { return };
    let requests = in_order(&seen);
    assert_eq!(requests.len(), 3, "and the one that ends it");
    let predict = requests[1].phases.iter().find(|phase| phase.source == Source::Function);
    let predict = predict.unwrap_or_else(|| panic!("{:#?}", requests[1]));
    let root = requests[1].root();
    assert_eq!((root.source, predict.parent), (Source::Socket, Some(root.id)));
    let on_thread_ns = root.accounts.get(Account::Cpu) + root.accounts.get(Account::Runq);
    assert!(on_thread_ns >= 15_000_000, "it computed for 20 ms: {root:?}");
}
