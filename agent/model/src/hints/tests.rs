//! What provokes a hint, and what must not.

use rstest::rstest;

use super::*;

fn server(ports: &[u16]) -> Seen {
    Seen { name: "srv".into(), ports: ports.to_vec(), ..Seen::default() }
}

fn python() -> Seen {
    Seen { is_python: true, ..server(&[]) }
}

fn with(library: Library) -> Seen {
    Seen { libraries: vec![library], ..server(&[]) }
}

/// Arguments of `run`, with everything available.
fn started() -> Asked {
    Asked {
        is_started: true,
        sees_kernel: true,
        on: vec![Kind::Marker, Kind::Python, Kind::Nvtx],
        ..Asked::default()
    }
}

fn attached() -> Asked {
    Asked { is_started: false, on: vec![Kind::Marker], ..started() }
}

#[rstest]
#[case::nobody(&[], started(), &[])]
#[case::nothing_special(&[server(&[])], started(), &[])]
#[case::a_port(&[server(&[8000])], started(), &["--requests port:8000"])]
#[case::workers_of_one_port(&[server(&[80]), server(&[80])], started(), &["--requests port:80"])]
#[case::a_watched_port(&[server(&[80])], Asked { ports: vec![80], ..started() }, &[])]
#[case::without_the_kernel(&[server(&[80])], Asked { sees_kernel: false, ..started() }, &[])]
#[case::python_that_is_marked(&[python()], started(), &[])]
#[case::phases_without_requests(
    &[Seen { is_python: true, ..server(&[8000]) }],
    Asked { has_phases: true, ..started() },
    &["--requests port:8000"]
)]
#[case::phases_of_a_program_that_serves_nobody(
    &[with(Library::OnnxRuntime)],
    Asked { has_phases: true, ..attached() },
    &[]
)]
#[case::python_that_is_attached_to(&[python()], attached(), &["guestscope run"])]
#[case::python_switched_off(&[python()], Asked { on: vec![], ..started() }, &["--sources python"])]
#[case::python_that_ignores(&[python()], Asked { python_option: Some('I'), ..started() }, &["-"])]
#[case::nvtx_without_ranges(&[with(Library::Nvtx)], started(), &[])]
#[case::nvtx_switched_off(&[with(Library::Nvtx)], Asked { on: vec![], ..started() }, &["--sources nvtx"])]
#[case::nvtx_attached_to(&[with(Library::Nvtx)], attached(), &["guestscope run"])]
#[case::functions(&[with(Library::OnnxRuntime)], attached(), &["--phase onnxruntime"])]
#[case::no_functions(&[with(Library::Llama)], Asked { sees_kernel: false, ..started() }, &[])]
#[case::go(&[Seen { is_go: true, ..server(&[]) }], started(), &["--requests port:NUMBER"])]
#[case::go_that_listens(&[Seen { is_go: true, ..server(&[9]) }], started(), &["--requests port:9"])]
#[case::never_many(
    &[Seen { is_python: true, ..server(&[1]) }, with(Library::Nvtx), with(Library::Llama)],
    attached(),
    &["--requests port:1", "guestscope run", "guestscope run"]
)]
fn what_was_seen_says_which_option_helps(
    #[case] seen: &[Seen],
    #[case] asked: Asked,
    #[case] expected: &[&str],
) {
    let hints = hints(seen, &asked);
    let options: Vec<&str> = hints.iter().map(|hint| hint.option.as_deref().unwrap_or("-")).collect();
    assert_eq!(options, expected);
}

#[rstest]
#[case::nothing(&[], None)]
#[case::a_daemon(&[70], Some("ended, and what it has started continues unobserved (pid 70)"))]
#[case::more(&[70, 71, 75], Some("ended, and what it has started continues unobserved (pid 70 and 2 more)"))]
fn what_goes_on_behind_a_program_is_told(#[case] processes: &[u32], #[case] expected: Option<&str>) {
    assert_eq!(left(&"srv".into(), processes).map(|hint| hint.saw).as_deref(), expected);
}

#[test]
fn many_ports_are_counted() {
    let hints = hints(&[server(&[5, 4, 3, 2, 1, 1])], &started());
    assert_eq!(hints[0].saw, "listens on ports 1, 2, 3 and 2 more");
    assert_eq!(hints[0].option.as_deref(), Some("--requests port:1"));
}

#[rstest]
#[case("libonnxruntime.so.1.17.0", Some(Library::OnnxRuntime))]
#[case("libonnxruntime_providers_shared.so", None)]
#[case("libllama.so", Some(Library::Llama))]
#[case("libtensorflow_framework.so.2", Some(Library::TensorFlow))]
#[case("libnvToolsExt-847d78f2.so.1", Some(Library::Nvtx))]
#[case("libcudart.so.12", None)]
#[case("libc.so.6", None)]
fn libraries_are_known_by_their_files(#[case] file: &str, #[case] expected: Option<Library>) {
    assert_eq!(Library::by_file(file), expected);
}
