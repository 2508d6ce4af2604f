//! Training with worker processes, and LoadGen.

use std::collections::{BTreeMap, BTreeSet};

use guestscope::phase::Request;
use guestscope_contract::Source;

use rstest::rstest;

use crate::{
    ground::{Ground, file, skipped},
    measured::has,
    service::python,
};

const BATCHES: usize = 12;

fn trace(request: &Request) -> [u8; 16] {
    request.root().trace.trace_id
}

#[test]
fn each_step_holds_its_phases_and_is_joined_with_the_batch_that_a_worker_made_for_it() {
    let test = "training::each_step_holds_its_phases";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let start = ground.run().program(python).word(file("tests/data/servers/training.py"));
    let done = start.word(BATCHES.to_string()).environment("PYTHONDONTWRITEBYTECODE", "1").finish().expect(0);
    let seen = done.seen();
    assert_eq!(done.losses(), []);
    let steps = seen.named("step");
    assert_eq!(steps.len(), BATCHES);
    for (at, step) in steps.iter().enumerate() {
        // oneDNN's primitives are inside forward and backward as well.
        let own = step.phases[1..].iter().filter(|phase| phase.source == Source::Python);
        let names: Vec<&str> = own.map(|phase| phase.name.stored()).collect();
        assert_eq!(names, ["data", "forward ResNet", "backward", "optimizer SGD"]);
        assert_eq!(step.root().request, at as u64 + 1);
    }
    let loads = seen.named("load");
    let processes: BTreeSet<u32> = loads.iter().map(|load| load.root().thread.tgid).collect();
    assert_eq!((loads.len(), processes.len()), (BATCHES, 2));
    let of_steps: BTreeMap<[u8; 16], u64> =
        steps.iter().map(|step| (trace(step), step.root().request)).collect();
    let of_loads: BTreeMap<[u8; 16], u64> =
        loads.iter().map(|load| (trace(load), load.root().request)).collect();
    assert_eq!(of_steps, of_loads);
    assert_eq!(seen.named("after the last batch").len(), 1);
}

#[test]
fn each_sample_of_loadgen_is_a_request_with_its_id() {
    let test = "training::each_sample_of_loadgen_is_a_request_with_its_id";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let start = ground.run().program(python).word(file("tests/data/servers/loadgen.py")).word("40");
    let folder = ground.path("loadgen");
    let done = start.word(&folder).environment("PYTHONDONTWRITEBYTECODE", "1").finish().expect(0);
    let seen = done.seen();
    assert_eq!(done.losses(), []);
    let issued = std::fs::read_to_string(folder.join("issued")).expect("the program wrote what it was given");
    let issued: BTreeSet<u64> = issued.lines().map(|line| line.parse().expect("an id")).collect();
    let queries = seen.named("query");
    let numbers: BTreeSet<u64> = queries.iter().map(|query| query.root().request).collect();
    assert_eq!((numbers, queries.len()), (issued, 40));
    assert_eq!(seen.named("forward ResNet").len(), 40);
}

/// Exit code of trainers.py if a package is missing.
const NO_PACKAGE: i32 = 77;

#[rstest]
#[case::keras("keras", &[("train step", 6), ("test step", 2), ("predict step", 4)])]
#[case::keras_on_tensorflow("tensorflow", &[("train step", 6), ("test step", 2), ("predict step", 4)])]
#[case::lightning("lightning", &[("training step", 6), ("validation step", 2), ("predict step", 4)])]
fn each_step_of_a_trainer_is_a_phase(#[case] trainer: &str, #[case] steps: &[(&str, usize)]) {
    let test = format!("training::each_step_of_a_trainer_is_a_phase, {trainer}");
    let (Some(ground), Some(python)) = (Ground::new(&test), python(&test)) else { return };
    let start = ground.run().program(&python).word(file("tests/data/servers/trainers.py")).word(trainer);
    let done = start.environment("PYTHONDONTWRITEBYTECODE", "1").finish();
    if done.code() == NO_PACKAGE {
        return skipped("packages", &format!("{test}: not in {}", python.display()));
    }
    let done = done.expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    let names: Vec<&str> =
        seen.requests.iter().flat_map(|request| &request.phases).map(|phase| phase.name.stored()).collect();
    for (step, times) in steps {
        assert_eq!(names.iter().filter(|name| *name == step).count(), *times, "{step}");
    }
}

/// The answer to a sample is a request of its own, named after the harness's outermost range.
#[test]
fn ranges_of_a_loadgen_harness_hold_the_models_phases() {
    let test = "training::ranges_of_a_loadgen_harness_hold_the_models_phases";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    if !has(&python, "nvtx") {
        return skipped("packages", &format!("{test}: no nvtx for {}", python.display()));
    }
    let start = ground.run().words(&["--sources", "python,nvtx"]).program(python);
    let start = start.word(file("tests/data/servers/loadgen.py")).word("40").word(ground.path("loadgen"));
    let done = start.word("nvtx").environment("PYTHONDONTWRITEBYTECODE", "1").finish().expect(0);
    let seen = done.seen();
    assert_eq!(done.losses(), []);
    let (queries, answers) = (seen.named("query"), seen.named("harness/answer"));
    let numbers = |requests: &[&Request]| -> BTreeSet<u64> {
        requests.iter().map(|request| request.root().request).collect()
    };
    assert_eq!((queries.len(), answers.len(), seen.requests.len()), (40, 40, 80));
    assert_eq!(numbers(&queries), numbers(&answers));
    for answer in answers {
        let all: Vec<(Source, &str)> =
            answer.phases.iter().map(|phase| (phase.source, phase.name.stored())).collect();
        let expected = [
            (Source::Nvtx, "harness/answer"),
            (Source::Nvtx, "harness/copy"),
            (Source::Python, "forward ResNet"),
        ];
        assert_eq!(all, expected);
        let root = answer.root().id;
        assert!(answer.phases[1..].iter().all(|phase| phase.parent == Some(root)));
    }
}
