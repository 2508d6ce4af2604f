//! The automatic marks of Python programs: the finder of imports, the wrappers, and what follows a request to
//! threads and tasks. Each program checks itself what is called of the marker library, and that it behaves as
//! it would without.
#![cfg(target_os = "linux")]

mod library;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use rstest::rstest;

/// Says why a test had to be left out, in the form that the project's test verb counts.
#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(name: &str, reason: &str) {
    println!("skipped: {name}: {reason}");
}

fn tests() -> PathBuf {
    library::package().join("tests")
}

/// Runs a program of the tests and returns what it prints, `None` where there is no such interpreter.
fn run(interpreter: &str, program: &str, arguments: &[&str]) -> Option<String> {
    let folders =
        [library::package().join("python"), tests().join("python_work"), tests().join("python_sources")];
    let path = folders.map(|folder| folder.display().to_string()).join(":");
    let mut python = Command::new(interpreter);
    python.arg(tests().join("python_sources").join(program)).args(arguments);
    python
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("GUESTSCOPE_MARK")
        .env_remove("GUESTSCOPE_PYTHON");
    let output = python.output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    Some(text(&output.stdout))
}

#[rstest]
#[case::imports("imports.py")]
#[case::wrappers("wrappers.py")]
#[case::hops("hops.py")]
fn a_program_behaves_as_it_would_without(#[case] program: &str) {
    if run("python3", program, &[]).is_none() {
        skipped(program, "there is no python3");
    }
}

/// Each server with its own framework's routes, or a framework's with its test client. GUESTSCOPE_WEB_PYTHON
/// names an interpreter (of a virtual environment) that has the packages; those that it lacks are left out by
/// name.
#[rstest]
fn each_request_of_a_real_server_is_one(
    #[values(
        "uvicorn",
        "httptools",
        "fastapi",
        "litestar",
        "hypercorn",
        "test_client",
        "werkzeug",
        "wsgiref",
        "waitress",
        "flask_client",
        "gevent",
        "django",
        "django_asgi",
        "aiohttp",
        "grpc",
        "grpc_asyncio"
    )]
    server: &str,
) {
    let interpreter = std::env::var("GUESTSCOPE_WEB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    match run(&interpreter, "servers.py", &[server]) {
        None => skipped(server, "there is no such interpreter"),
        Some(output) if output.contains("missing: ") => {
            skipped(&format!("packages: {server}"), output.trim());
        }
        Some(_) => {}
    }
}

/// Frameworks and servers of which a program may have one, with their own routes.
#[rstest]
fn each_request_of_another_server_is_one(
    #[values(
        "stdlib",
        "xmlrpc",
        "tornado",
        "sanic",
        "sanic asgi",
        "quart",
        "falcon",
        "falcon_wsgi",
        "bottle",
        "cheroot",
        "eventlet",
        "background",
        "celery",
        "ray",
        "grpc_registered",
        "grpc_threads_of_asyncio",
        "grpclib"
    )]
    server: &str,
) {
    let interpreter = std::env::var("GUESTSCOPE_WEB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let words: Vec<&str> = server.split(' ').collect();
    match run(&interpreter, "more.py", &words) {
        None => skipped(server, "there is no such interpreter"),
        Some(output) if output.contains("missing: ") => {
            skipped(&format!("packages: {server}"), output.trim());
        }
        Some(_) => {}
    }
}

/// What the program has of its own, and how it is started.
struct Start<'a> {
    files: &'a [(&'a str, &'a str)],
    flags: &'a [&'a str],
}

/// Its output, errors and exit code, with the automatic marks in front or without.
fn start(
    folder: &Path,
    start: &Start<'_>,
    with: bool,
    program: &str,
) -> Option<(String, String, Option<i32>)> {
    for (name, text) in start.files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("the folder is ours");
        std::fs::write(path, text).expect("the folder is ours");
    }
    let own = folder.display().to_string();
    let path = if with { format!("{}:{own}", library::package().join("python").display()) } else { own };
    let mut python = Command::new("python3");
    python.args(start.flags).arg("-c").arg(program).env("PYTHONPATH", path).env("GUESTSCOPE_PYTHON", "auto");
    // Where usercustomize is looked for.
    python.env("PYTHONUSERBASE", folder).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("GUESTSCOPE_LIBRARY");
    let output = python.output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&output.stdout), text(&output.stderr), output.status.code()))
}

const OWN: &str = "import sys\nprint('own', __name__, sys.modules['sitecustomize'].__file__ == __file__)\n";
/// An agent around this one has put it there.
const OURS: &[(&str, &str)] = &[
    ("sitecustomize.py", include_str!("../python/sitecustomize.py")),
    ("guestscope_sources/__init__.py", "def start(environment): pass"),
];
const SAYS: &str = "import sys
try:
    import sitecustomize as own
    print(own.__file__)
except ImportError as error:
    print(error)
names = [type(finder).__name__ for finder in sys.meta_path]
print([name for name in names if name != 'Finder'])";

#[rstest]
#[case::none(Start { files: &[], flags: &[] })]
#[case::its_own(Start { files: &[("sitecustomize.py", OWN)], flags: &[] })]
#[case::one_that_raises(Start { files: &[("sitecustomize.py", "raise KeyError('own')")], flags: &[] })]
#[case::one_that_lacks_a_module(Start { files: &[("sitecustomize.py", "import not_there")], flags: &[] })]
#[case::another_copy_of_ours(Start { files: OURS, flags: &[] })]
#[case::one_that_exits(Start { files: &[("sitecustomize.py", "raise SystemExit(3)")], flags: &[] })]
#[case::without_site(Start { files: &[("sitecustomize.py", OWN)], flags: &["-S"] })]
#[case::without_environment(Start { files: &[("sitecustomize.py", OWN)], flags: &["-E"] })]
#[case::isolated(Start { files: &[("sitecustomize.py", OWN)], flags: &["-I"] })]
fn the_programs_own_sitecustomize_runs_as_before(#[case] own: Start<'_>) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let Some(without) = start(folder.path(), &own, false, SAYS) else {
        return skipped("the_programs_own_sitecustomize_runs_as_before", "there is no python3");
    };
    assert_eq!(start(folder.path(), &own, true, SAYS), Some(without));
}

/// A program that uses no library of the table pays for the finder alone.
#[test]
fn nothing_but_the_finder_is_loaded_before_it_is_needed() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let program = "import sys; print(sorted(sys.modules))";
    let own = Start { files: &[], flags: &[] };
    let modules = |with| {
        let (output, errors, _) = start(folder.path(), &own, with, program)?;
        assert_eq!(errors, "");
        Some(
            output
                .trim_matches(['[', ']', '\n'])
                .split(", ")
                .map(str::to_owned)
                .collect::<BTreeSet<String>>(),
        )
    };
    let (Some(without), Some(with)) = (modules(false), modules(true)) else {
        return skipped("nothing_but_the_finder_is_loaded_before_it_is_needed", "there is no python3");
    };
    let more: Vec<&String> = with.difference(&without).collect();
    assert_eq!(more, ["'guestscope_sources'", "'guestscope_sources.finder'", "'guestscope_sources.table'"]);
}
