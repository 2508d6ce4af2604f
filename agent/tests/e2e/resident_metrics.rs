//! Metrics of a resident agent: equal to the rows of its recorder, taken by a real Prometheus; and `top`.

use std::{collections::BTreeMap, fs, net::TcpListener, path::PathBuf, process::Stdio};

use guestscope::{
    folder::Folder,
    phase::{Ending, PhaseKind, Request},
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    ground::{eventually, skipped, variable},
    running::Start,
    watching::{Resident, taker},
};

const TRIGGER: &str = "[[triggers]]\nslower_than = '200ms'\n[incidents]\nbefore = '3s'\nafter = '1s'\n";

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has one").port()
}

fn scrape(port: u16) -> String {
    let mut answer = ureq::get(format!("http://127.0.0.1:{port}/metrics")).call().expect("it answers");
    answer.body_mut().read_to_string().expect("it is text")
}

/// The samples of a text, by name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let line = line.split(" # ").next().unwrap_or(line);
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    lines.map(sample).collect()
}

/// All requests of the recorder's segments that statistics count.
fn recorded(resident: &Resident) -> Vec<Request> {
    let segments = fs::read_dir(resident.ground.path("watch/recorder")).expect("it is there");
    let mut paths: Vec<PathBuf> = segments.map(|entry| entry.expect("it is there").path()).collect();
    paths.sort();
    let requests = |path: PathBuf| -> Vec<Request> {
        let folder = Folder::open(path).expect("it is a run folder");
        folder.requests().expect("it has some").map(|one| one.expect("it is whole")).collect()
    };
    let is_counted =
        |one: &Request| one.root().kind == PhaseKind::Request && one.root().ending == Ending::Ended;
    paths.into_iter().flat_map(requests).filter(is_counted).collect()
}

#[test]
fn metrics_are_those_of_the_rows() {
    let Some(resident) = Resident::new("resident_metrics::metrics_are_those_of_the_rows") else { return };
    let port = free_port();
    resident.configure("*spikes*", &format!("{TRIGGER}[metrics]\nlisten = '127.0.0.1:{port}'\n"));
    let agent = resident.watch("agent", &[]);
    let program = resident.program("book");
    resident.wait_until_seen(300);
    resident.make_slow("book");
    resident.wait_until_seen(400);
    let top = resident.ground.command(&["top", "--socket"]).word(resident.ground.path("watch.sock"));
    let top = top.finish().expect(0).stdout;
    assert!(top.lines().any(|line| line.starts_with("request ") && line.contains("/s")), "{top}");
    assert!(top.lines().all(|line| line.chars().count() <= 80), "{top}");
    resident.incidents(1);
    drop(program);
    eventually("its end", || (resident.ctl("status")["processes"] == 0).then_some(()));
    // Segments end once a second, after everything before was counted.
    let before = resident.ctl("status")["segments"].as_u64();
    let two_more =
        || (resident.ctl("status")["segments"].as_u64() >= before.map(|many| many + 2)).then_some(());
    eventually("two more segments", two_more);
    let text = scrape(port);
    assert!(text.ends_with("# EOF\n"));
    let found = samples(&text);
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);

    let requests = recorded(&resident);
    let of = |name: &str, labels: &str| found[&format!("guestscope_phase_{name}{{{labels}}}")];
    for (labels, phase) in [("", None), (",phase=\"work\"", Some("work")), (",phase=\"rest\"", Some("rest"))]
    {
        let labels = format!("request=\"request\"{labels}");
        let phases = requests.iter().flat_map(|request| &request.phases).filter(|one| match phase {
            None => one.kind == PhaseKind::Request,
            Some(name) => one.kind == PhaseKind::Phase && one.name.stored() == name,
        });
        let phases: Vec<_> = phases.collect();
        assert!(phases.len() >= 400, "{} of {labels}", phases.len());
        assert_eq!(of("duration_seconds_count", &labels) as usize, phases.len(), "{labels}");
        let sum: u128 = phases.iter().map(|one| u128::from(one.duration_ns)).sum();
        assert!((of("duration_seconds_sum", &labels) - sum as f64 / 1e9).abs() < 1e-9 * phases.len() as f64);
        for power in 16..=36_u32 {
            let up_to = phases.iter().filter(|one| one.duration_ns <= 1 << power).count();
            let le = format!("{labels},le=\"{}\"", (1_u64 << power) as f64 / 1e9);
            assert_eq!(of("duration_seconds_bucket", &le) as usize, up_to, "{le}");
        }
        let slept: u64 =
            phases.iter().map(|one| one.accounts.0[guestscope_contract::Account::Sleep as usize]).sum();
        if slept > 0 {
            let told = of("time_seconds_total", &format!("{labels},account=\"sleep\""));
            assert!((told - slept as f64 / 1e9).abs() < 1e-6, "{told} {slept}");
        }
    }
    assert_eq!(found["guestscope_incidents_total{outcome=\"kept\"}"] as u64, 1);
    assert_eq!(found["guestscope_rows_lost_total"] as u64, 0);
}

#[test]
fn metrics_that_nobody_takes_are_told_and_so_is_that_somebody_does() {
    let Some(resident) =
        Resident::new("resident_metrics::metrics_that_nobody_takes_are_told_and_so_is_that_somebody_does")
    else {
        return;
    };
    let port = free_port();
    resident.configure("*spikes*", &format!("{TRIGGER}[metrics]\notlp = 'http://127.0.0.1:{port}'\n"));
    let start = resident.agent("agent", &[]).environment("OTEL_METRIC_EXPORT_INTERVAL", "200");
    let agent = start.environment("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf").spawn();
    eventually("it watches", || resident.said("agent").contains("watching: ").then_some(()));
    let program = resident.program("book");
    let failed = || resident.ctl("status")["losses"]["metric_pushes_failed"].as_u64();
    let before = eventually("it is counted", || failed().filter(|count| *count >= 2));
    assert!(
        resident.said("agent").contains("warning: metrics are not taken: "),
        "{}",
        resident.said("agent")
    );
    taker(port);
    eventually("it is told", || resident.said("agent").contains("metrics are taken again").then_some(()));
    assert!(failed() >= Some(before), "none is forgotten");
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}

#[test]
fn a_real_prometheus_takes_them() {
    const NAME: &str = "resident_metrics::a_real_prometheus_takes_them";
    let Some(prometheus) = variable("GUESTSCOPE_PROMETHEUS") else {
        return skipped(NAME, "GUESTSCOPE_PROMETHEUS is not set");
    };
    let Some(resident) = Resident::new(NAME) else { return };
    let (port, web) = (free_port(), free_port());
    resident.configure("*spikes*", &format!("{TRIGGER}[metrics]\nlisten = '127.0.0.1:{port}'\n"));
    let agent = resident.watch("agent", &[]);
    let program = resident.program("book");
    resident.wait_until_seen(200);
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: guest\n  static_configs:\n  \
         - targets: ['127.0.0.1:{port}']\n"
    );
    fs::write(resident.ground.path("prometheus.yml"), config).expect("the folder is ours");
    let start = Start::new(&resident.ground.path(""), prometheus.as_ref())
        .word(format!("--config.file={}", resident.ground.path("prometheus.yml").display()))
        .word(format!("--storage.tsdb.path={}", resident.ground.path("data").display()))
        .word(format!("--web.listen-address=127.0.0.1:{web}"))
        .word("--enable-feature=exemplar-storage")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let server = start.spawn();
    let ask = |path: &str, query: &str| -> Option<Value> {
        let mut call = ureq::get(format!("http://127.0.0.1:{web}/api/v1/{path}"));
        call = call.query("query", query);
        if path == "query_exemplars" {
            call = call.query("start", "0").query("end", "9999999999");
        }
        let text = call.call().ok()?.body_mut().read_to_string().ok()?;
        serde_json::from_str(&text).ok()
    };
    let count = "guestscope_phase_duration_seconds_count{request=\"request\",phase=\"\"}";
    let value = |query: &str| -> Option<f64> {
        ask("query", query)?["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let first = eventually("a count", || value(count).filter(|count| *count > 200.0));
    let later = eventually("a later one", || value(count).filter(|count| *count > first));
    assert!(later > first);
    let p50 =
        "histogram_quantile(0.5, guestscope_phase_duration_seconds_bucket{request=\"request\",phase=\"\"})";
    let p50 = eventually("a quantile", || value(p50).filter(|seconds| seconds.is_finite()));
    // Each takes 2.2 ms and more.
    assert!((0.001..0.1).contains(&p50), "{p50}");
    let exemplars = eventually("exemplars", || {
        let found = ask("query_exemplars", "guestscope_phase_duration_seconds_bucket")?;
        found["data"].as_array().filter(|data| !data.is_empty()).cloned()
    });
    let id = exemplars[0]["exemplars"][0]["labels"]["trace_id"].as_str().expect("it names a trace");
    assert_eq!(id.len(), 32, "{id}");
    drop((server, program));
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
}
