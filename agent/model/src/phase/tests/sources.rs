//! Phases of several sources on one thread: what nests, what is a request, what they are called in the end.

use guestscope_contract::Source;
use rstest::rstest;

use super::{play, script::World};
use crate::phase::{Made, Told};

/// 262144, 524288, ... are roots. The ranges come from a second copy of the library, to which nothing else is
/// open.
#[test]
fn what_other_sources_see_within_a_request_is_a_phase_of_it() {
    let printed = play(
        "
        100 10/10 request 262144 GET #1 from=python
        110 10/10 begin 262145 forward from=python
        120 10/10 begin 262144 layer-1 lib=2 from=nvtx #7
        130 10/10 end 262144 lib=2
        140 10/10 begin 524288 layer-2 lib=2 from=nvtx
        150 10/10 end 524288 lib=2
        160 10/10 end 262145
        170 10/10 request 524288 mine #9
        180 10/10 begin 524289 inner
        185 10/10 end 524289
        190 10/10 end 524288
        200 10/10 end 262144",
    );
    insta::assert_snapshot!(printed, @"
    request GET #1        10/10  100..200  cpu 100, from python
      phase forward #1    10/10  110..160  cpu 50, from python
        phase layer-1 #7  10/10  120..130  cpu 10, from nvtx
        phase layer-2 #1  10/10  140..150  cpu 10, from nvtx
      phase mine #9       10/10  170..190  cpu 20
        phase inner #1    10/10  180..185  cpu 5
    ");
}

#[test]
fn a_program_may_mark_a_request_within_its_own_phase_and_nobody_else() {
    let printed = play(
        "
        0  10/10 begin 262144 loop
        10 10/10 request 524288 mine #1
        20 10/10 end 524288
        30 10/10 request 786432 GET #2 from=python
        40 10/10 end 786432
        50 10/10 end 262144",
    );
    insta::assert_snapshot!(printed, @"
    request mine #1  10/10  10..20  cpu 10
    request loop     10/10  0..50   cpu 50
      phase GET #2   10/10  30..40  cpu 10, from python
    ");
}

#[rstest]
#[case::a_call_of_a_library("begin 262144 forward from=python", false)]
#[case::a_range("begin 262144 layer from=nvtx", false)]
#[case::a_step("begin 262144 step #4 from=python", true)]
#[case::a_request("request 262144 GET from=python", true)]
#[case::what_the_program_marks("begin 262144 load", true)]
fn what_no_request_is_around_is_one_if_it_was_begun_as_one(#[case] begin: &str, #[case] is_one: bool) {
    let mut world = World::default();
    world.play(&format!("0 10/10 {begin}\n1 10/10 end 262144"));
    assert_eq!(world.pairing.sources.has_requests, is_one);
}

#[test]
fn a_phase_that_joins_another_one_is_of_the_same_source() {
    let printed = play(
        "
        0  10/10 request 262144 step #1 from=python
        1  10/10 begin 262145 data after=262144
        20 10/10 begin 262146 forward after=262145
        30 10/10 end 262144 with=262146",
    );
    insta::assert_snapshot!(printed, @"
    request step #1     10/10  0..30   cpu 30, from python
      phase data #1     10/10  0..20   cpu 20, from python
      phase forward #1  10/10  20..30  cpu 10, from python
    ");
}

#[test]
fn a_name_that_is_known_late_is_the_one_that_stays() {
    let printed = play(
        "
        0  10/10 request 262144 GET #1 from=python
        5  10/10 begin 262145 a
        10 10/10 rename 262144 GET\\x20/items/{id} #200
        15 10/10 rename 262145 (empty) #7
        20 10/10 end 262145
        21 10/10 rename 262145 too-late
        30 10/10 end 262144",
    );
    insta::assert_snapshot!(printed, @"
    request GET /items/{id} #1  10/10  0..30  cpu 30, from python, status 200
      phase a #1                10/10  5..20  cpu 15, status 7
    losses: unmatched ends 1
    ");
}

#[test]
fn names_beyond_a_thousand_of_one_source_are_one_name() {
    let mut world = World::default();
    let lines: Vec<String> = (0..1_002_u64)
        .flat_map(|number| {
            let (at, token) = (number * 10, (number + 1) << 18);
            [
                format!("{at} 10/10 begin {token} name-{number} from=nvtx"),
                format!("{} 10/10 end {token}", at + 5),
            ]
        })
        .chain(["20000 10/10 begin 1048576000 mine".to_owned(), "20001 10/10 end 1048576000".to_owned()])
        .collect();
    let outputs = world.play(&lines.join("\n"));
    let printed = super::print::outputs(&outputs[999..], &world.pairing);
    insta::assert_snapshot!(printed, @"
    request name-999       10/10  9990..9995    cpu 5, from nvtx
    request (other names)  10/10  10000..10005  cpu 5, from nvtx
    request (other names)  10/10  10010..10015  cpu 5, from nvtx
    request mine           10/10  20000..20001  cpu 1
    losses: names left out 2
    ");
}

#[test]
fn what_a_source_says_of_itself_is_kept_once_and_counted() {
    let mut world = World::default();
    let mut lines = vec![
        "1 10/10 tell \\x2btorch from=python".to_owned(),
        "2 10/10 tell \\x2btorch from=python".to_owned(),
        "3 10/10 tell \\x2btorch from=nvtx".to_owned(),
        "4 10/10 request 262144 GET #1 from=python".to_owned(),
        "5 10/10 begin 262145 forward from=python".to_owned(),
    ];
    lines.extend((0..300).map(|number| format!("{} 10/10 tell !{number} from=itt", 6 + number)));
    world.play(&lines.join("\n"));
    let sources = &world.pairing.sources;
    let told = |source, text: &str, times| Told { source, text: text.into(), times };
    assert_eq!(sources.told[..2], [told(Source::Python, "+torch", 2), told(Source::Nvtx, "+torch", 1)]);
    assert_eq!((sources.told.len(), sources.told_more), (256, 46));
    assert_eq!(sources.made(Source::Python), Made { requests: 1, phases: 1, alone: 0 });
}

/// Entries of functions that the kernel side tells of: nobody numbers these edges, so none seems to be lost.
#[test]
fn edges_without_a_number_are_never_missed() {
    let printed = play(
        "
        0  10/10 begin 5 llama_decode lib=65535 number=0 from=function
        10 10/10 begin 9 llama_decode lib=65535 number=0 from=function
        20 10/10 end 9 lib=65535 number=0
        30 10/10 end 5 lib=65535 number=0",
    );
    insta::assert_snapshot!(printed, @"
    request llama_decode  10/10  0..30   cpu 30, from function
      phase llama_decode  10/10  10..20  cpu 10, from function
    ");
}

/// A library's own threads are inside nothing: what it says of its inside is no request there, and what a
/// program marks within it is.
#[test]
fn a_detail_is_a_phase_within_others_and_nothing_alone() {
    let mut world = World::default();
    let outputs = world.play(
        "
        0   10/10 request 262144 GET #1 from=python
        10  10/10 begin 262144 conv lib=2 from=itt detail
        20  10/10 end 262144 lib=2
        30  10/10 end 262144
        100 10/10 begin 524288 conv lib=2 from=itt detail
        110 10/10 begin 524289 part lib=2 from=itt detail
        120 10/10 leave 524289 lib=2
        130 10/10 enter 524289 lib=2
        140 10/10 end 524289 lib=2
        150 10/10 request 524288 mine #2
        160 10/10 end 524288
        170 10/10 end 524288 lib=2
        180 10/10 end 786432 lib=2",
    );
    insta::assert_snapshot!(super::print::outputs(&outputs, &world.pairing), @"
    request GET #1   10/10  0..30     cpu 30, from python
      phase conv #1  10/10  10..20    cpu 10, from itt
    request mine #2  10/10  150..160  cpu 10
    losses: unmatched ends 1
    ");
    assert_eq!(world.pairing.sources.made(Source::Itt), Made { requests: 0, phases: 1, alone: 2 });
}
