//! Training with libtorch: sizes of the models, that the same work gives the same bits, that something is learned, and the
//! program's own words.
#![cfg(feature = "torch")]

use std::{path::Path, process::Command};

use guestscope_workloads::train::{MODELS, Model, Settings, models::Network, report::Report, run};
use rstest::rstest;
use serde_json::Value;
use tch::{Kind, Tensor};

fn settings(model: &str, batch: u64, steps: u64) -> Settings {
    Settings {
        model: Model::find(model).expect("it is one of them"),
        batch,
        steps,
        warmup: 1,
        threads: 1,
        seed: 3,
        learning_rate: 0.01,
        data: None,
        loaders: 1,
        drop_caches: false,
        progress: false,
    }
}

fn trained(settings: &Settings) -> Report {
    run(settings).expect("nothing is missing")
}

#[test]
fn models_have_the_parameters_of_the_studies() {
    for model in MODELS {
        let network = Network::seeded(model, 1).expect(model.name);
        assert_eq!(network.parameters(), model.parameters.cast_signed(), "{}", model.name);
    }
}

/// Inception's are `Conv2d_1a_3x3.conv.weight` and so on in torchvision too.
#[rstest]
#[case("alexnet", "features.3.weight", &[192, 64, 5, 5])]
#[case("alexnet", "classifier.6.bias", &[1000])]
#[case("inception3", "Mixed_7c.branch3x3dbl_3b.conv.weight", &[384, 384, 3, 1])]
#[case("resnet50", "layer4.0.downsample.0.weight", &[2048, 1024, 1, 1])]
fn tensors_are_called_as_in_torchvision(#[case] model: &str, #[case] name: &str, #[case] shape: &[i64]) {
    let network = Network::seeded(Model::find(model).expect("it is one of them"), 1).unwrap();
    assert_eq!(network.store.variables()[name].size(), shape);
}

#[rstest]
#[case("mnist")]
#[case("alexnet")]
#[case("alexnet-tf")]
#[case("inception3")]
#[case("resnet50")]
fn a_step_of_each_model_gives_logits_of_all_classes(#[case] name: &str) {
    tch::set_num_threads(1);
    let model = Model::find(name).unwrap();
    let network = Network::seeded(model, 1).unwrap();
    let side = i64::from(model.side);
    let images = Tensor::ones([2, i64::from(model.channels), side, side], (Kind::Float, tch::Device::Cpu));
    assert_eq!(network.train(&images).unwrap().size(), [2, i64::from(model.classes)]);
}

/// Programs of their own: libtorch has one generator for all threads of a process, and other tests draw from it.
#[test]
fn the_same_work_gives_the_same_bits() {
    let hashes = |seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        let words = ["mnist", "--batch", "8", "--steps", "5", "--warmup", "1", "--threads", "1", "--json"];
        let (code, json, error) = program(folder.path(), &[&words[..], &["--seed", seed]].concat());
        assert_eq!((code, error.as_str()), (Some(0), ""));
        let line: Value = serde_json::from_str(&json).expect("one line of JSON");
        ["output_hash", "work_hash"].map(|name| line[name].as_str().expect("it is there").to_owned())
    };
    let one = hashes("3");
    assert_eq!(one, hashes("3"));
    let other = hashes("4");
    assert!(one[0] != other[0] && one[1] != other[1], "{one:?} {other:?}");
}

/// The same batch again and again is soon known by heart.
#[test]
fn a_synthetic_batch_is_learned() {
    let report = trained(&Settings { learning_rate: 0.1, ..settings("mnist", 16, 60) });
    let losses = &report.measured.losses;
    assert!(losses[0] > 1.5, "ten classes begin near ln 10: {}", losses[0]);
    let last = losses[50..].iter().sum::<f64>() / 10.0;
    assert!(last < losses[0] / 2.0, "{} to {last}", losses[0]);
}

#[test]
fn phases_lie_in_their_steps() {
    let measured = trained(&settings("alexnet", 2, 3)).measured;
    assert_eq!((measured.step_ns.len(), measured.losses.len()), (3, 3));
    for (step, total) in measured.step_ns.iter().enumerate() {
        let parts: Vec<u64> = measured.phase_ns.iter().map(|phase| phase[step]).collect();
        assert!(
            parts.iter().all(|ns| *ns > 0) && parts.iter().sum::<u64>() <= *total,
            "{parts:?} of {total}"
        );
    }
}

#[test]
fn a_loss_that_is_no_number_ends_the_job() {
    let error = run(&Settings { learning_rate: 1e30, ..settings("mnist", 8, 20) }).unwrap_err();
    assert!(error.to_string().starts_with("training broke down: the loss of "), "{error}");
    assert_eq!(error.hint(), "try a smaller --learning-rate");
}

fn program(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.arg("train").args(arguments).current_dir(folder).env_remove("GUESTSCOPE_WORKLOAD_FILE");
    let output = command.output().expect("cargo built the binary for this test");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("all that is printed is UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn pictures_of_a_folder_are_trained_on_and_broken_ones_named() {
    let folder = tempfile::tempdir().unwrap();
    for (class, name) in [("cats", "1.jpg"), ("cats", "2.jpg"), ("dogs", "3.jpg")] {
        std::fs::create_dir_all(folder.path().join(class)).unwrap();
        let pixels: Vec<u8> = (0..280 * 240 * 3_u32).map(|at| (at / 5) as u8).collect();
        let encoder = jpeg_encoder::Encoder::new_file(folder.path().join(class).join(name), 90).unwrap();
        encoder.encode(&pixels, 280, 240, jpeg_encoder::ColorType::Rgb).unwrap();
    }
    std::fs::write(folder.path().join("dogs/broken.jpg"), b"no picture").unwrap();
    let words = ["alexnet", "--smoke", "--data", ".", "--drop-caches", "--threads", "1"];
    let (code, out, error) = program(folder.path(), &words);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(out.contains("folder data") && out.contains("1 files that could not be used"), "{out}");
    assert!(out.contains("./dogs/broken.jpg: not a JPEG"), "{out}");
    let (_, json, _) = program(folder.path(), &[&words[..], &["--json"]].concat());
    let line: Value = serde_json::from_str(&json).expect("one line of JSON");
    assert_eq!((line["data"].as_str(), line["skipped_files"].as_u64()), (Some("folder"), Some(1)));
    assert_eq!((line["loaders"].as_u64(), line["drop_caches"].as_bool()), (Some(2), Some(true)));
}

#[rstest]
#[case::photographs_for_digits(&["mnist", "--data", "."], "error: MNIST CNN takes no photographs")]
#[case::no_folder(&["resnet50", "--data", "nowhere"], "error: cannot read folder: nowhere")]
#[case::unknown(&["resnet51"], "a similar value exists: 'resnet50'")]
#[case::no_rate(&["mnist", "--learning-rate", "nan"], "a number above 0")]
fn what_cannot_be_is_refused(#[case] words: &[&str], #[case] says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, error) = program(folder.path(), words);
    assert_ne!(code, Some(0));
    assert_eq!(out, "");
    assert!(error.contains(says), "{error}");
}
