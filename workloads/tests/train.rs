//! Training with libtorch: sizes of the models, the same work gives the same bits, something is learned, and
//! the program's messages.
#![cfg(feature = "torch")]

#[path = "common/memory_group.rs"]
mod memory_group;

use std::{path::Path, process::Command};

use guestscope_workloads::{
    progress::Progress,
    train::{MODELS, Model, Settings, Share, models::Network, report::Report, run},
};
use rstest::rstest;
use serde_json::Value;
use tch::{Kind, Tensor};

use memory_group::MemoryGroup;

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
        share: Share::ALL,
        progress: Progress::Hidden,
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

/// Separate processes: libtorch has one generator for all threads of a process, and other tests draw from it.
#[rstest]
#[case::mnist("mnist", "8", "1")]
#[case::two_threads("mnist", "8", "2")]
#[case::alexnet("alexnet-tf", "2", "1")]
#[case::alexnet_of_torchvision("alexnet", "2", "1")]
#[case::alexnet_on_two_threads("alexnet", "2", "2")]
#[case::inception3("inception3", "1", "1")]
#[case::inception3_on_two_threads("inception3", "1", "2")]
#[case::resnet50("resnet50", "1", "1")]
#[case::resnet50_on_two_threads("resnet50", "1", "2")]
fn the_same_work_gives_the_same_bits(#[case] model: &str, #[case] batch: &str, #[case] threads: &str) {
    let hashes = |seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut words = vec![model, "--batch", batch, "--steps", "2", "--warmup", "0"];
        words.extend(["--threads", threads, "--seed", seed, "--json"]);
        let (code, json, error) = program(folder.path(), &words);
        assert_eq!((code, error.as_str()), (Some(0), ""));
        let line: Value = serde_json::from_str(&json).expect("one line of JSON");
        ["output_hash", "work_hash"].map(|name| line[name].as_str().expect("it is there").to_owned())
    };
    let one = hashes("3");
    assert_eq!(one, hashes("3"));
    let other = hashes("4");
    assert!(one[0] != other[0] && one[1] != other[1], "{one:?} {other:?}");
}

/// The same batch again and again is soon learned by heart.
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
    let steps = &measured.steps;
    assert_eq!((steps.count(), measured.losses.len()), (3, 3));
    for (step, total) in steps.step_ns().iter().enumerate() {
        let parts: Vec<u64> = steps.phase_ns().iter().map(|phase| phase[step]).collect();
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

fn picture(path: &Path) {
    std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder of a test");
    let name = path.file_name().expect("it has a name").to_string_lossy();
    let shade = name.bytes().map(u32::from).sum::<u32>();
    let pixels: Vec<u8> = (0..280 * 240 * 3_u32).map(|at| (at / 5 * shade) as u8).collect();
    let encoder = jpeg_encoder::Encoder::new_file(path, 90).expect("a file of a test");
    encoder.encode(&pixels, 280, 240, jpeg_encoder::ColorType::Rgb).expect("of so many pixels");
}

fn program(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    guestscope_workloads("train", folder, arguments)
}

fn guestscope_workloads(verb: &str, folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.arg(verb).args(arguments).current_dir(folder).env_remove("GUESTSCOPE_WORKLOAD_FILE");
    // Two threads that spin for each other on a busy machine take 100 times as long; these tests run in
    // parallel.
    command.env("OMP_WAIT_POLICY", "passive");
    let output = command.output().expect("cargo built the binary for this test");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("all that is printed is UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn pictures_of_a_folder_are_trained_on_and_broken_ones_named() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["cats/1.jpg", "cats/2.jpg", "dogs/3.jpg"] {
        picture(&folder.path().join(name));
    }
    std::fs::write(folder.path().join("dogs/broken.jpg"), b"no picture").unwrap();
    let words = ["alexnet", "--smoke", "--data", ".", "--drop-caches", "--threads", "1"];
    let (code, out, error) = program(folder.path(), &[&words[..], &["--text"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("folder data") && out.contains("1 file or record that could not be used"), "{out}");
    let named = "warning: not all could be used: 1 file or record left out\n  ./dogs/broken.jpg: not a JPEG";
    assert!(error.starts_with(named), "{error}");
    let (_, json, said) = program(folder.path(), &words);
    assert_eq!(said, error, "also where machines read the result");
    let line: Value = serde_json::from_str(&json).expect("one line of JSON");
    assert_eq!((line["data"].as_str(), line["skipped_files"].as_u64()), (Some("folder"), Some(1)));
    assert_eq!((line["loaders"].as_u64(), line["drop_caches"].as_bool()), (Some(2), Some(true)));
}

/// Same names and sizes, but one picture cannot be decoded and another takes its place.
#[test]
fn a_picture_that_is_left_out_makes_another_work() {
    let folder = tempfile::tempdir().unwrap();
    let work_hash = || {
        let words = ["alexnet", "--smoke", "--data", "in", "--threads", "1", "--json"];
        let (code, json, error) = program(folder.path(), &words);
        assert_eq!(code, Some(0), "{error}");
        let report: Value = serde_json::from_str(&json).expect("one line of JSON");
        (report["work_hash"].clone(), report["skipped_files"].as_u64())
    };
    let paths = ["in/1.jpg", "in/2.jpg"].map(|name| folder.path().join(name));
    for path in &paths {
        picture(path);
    }
    let whole = work_hash();
    assert_eq!((work_hash(), whole.1), (whole.clone(), Some(0)));
    let bytes = std::fs::metadata(&paths[1]).unwrap().len();
    std::fs::write(&paths[1], vec![0; bytes as usize]).unwrap();
    let broken = work_hash();
    assert_eq!(broken.1, Some(1));
    assert_ne!(broken.0, whole.0);
}

/// Shards of a folder's pictures train exactly like the folder itself; a truncated shard is named.
#[test]
fn shards_are_trained_on_like_the_folder_that_they_are_of() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["in/cats/1.jpg", "in/cats/2.jpg", "in/dogs/3.jpg", "in/dogs/4.jpg", "in/owls/5.jpg"] {
        picture(&folder.path().join(name));
    }
    let train = |data: &str| {
        let words = ["alexnet", "--smoke", "--data", data, "--drop-caches", "--threads", "1", "--json"];
        let (code, json, error) = program(folder.path(), &words);
        assert_eq!(code, Some(0), "{error}");
        (serde_json::from_str::<Value>(&json).expect("one line of JSON"), error)
    };
    let (report, error) = train("in");
    let expected = report["output_hash"].clone();
    assert_eq!(error, "");
    for format in ["tfrecord", "tar"] {
        let words = ["--data", "in", "--output", format, "--format", format, "--per-shard", "2", "--json"];
        let packed = guestscope_workloads("shards", folder.path(), &words);
        let packed: Value = serde_json::from_str(&packed.1).expect("one line of JSON");
        assert_eq!((packed["shards"].as_u64(), packed["pictures"].as_u64()), (Some(3), Some(5)));
        let (report, error) = train(format);
        assert_eq!(error, "");
        assert_eq!((&report["data"], &report["output_hash"]), (&Value::from(format), &expected));
        assert_eq!((report["kept_files"].as_u64(), report["skipped_files"].as_u64()), (Some(0), Some(0)));
        let last = folder.path().join(format).join(format!("pictures-00002-of-00003.{format}"));
        let bytes = std::fs::read(&last).unwrap();
        std::fs::write(&last, &bytes[..900]).unwrap();
        let whole = report["work_hash"].clone();
        let (report, error) = train(format);
        assert_eq!(report["skipped_files"], 1);
        assert_ne!(report["work_hash"], whole, "others took their place");
        assert!(
            error.starts_with("warning: not all could be used: 1 file or record left out\n  "),
            "{error}"
        );
        assert!(error.contains("only its first 0 pictures are there"), "{error}");
        let alone = last.to_str().unwrap();
        let (code, _, error) = program(folder.path(), &["alexnet", "--smoke", "--data", alone]);
        assert_eq!(code, Some(2));
        assert!(error.starts_with("error: no picture in the folder can be used: "), "{error}");
        assert!(error.contains("only its first 0 pictures are there"), "{error}");
    }
}

/// A pinned CPU decides the number of threads; the description has both the request and its effect.
#[rstest]
#[case::named("cpu", &["cpu"])]
#[case::whatever_there_is("auto", &["cpu", "cuda:0"])]
fn the_machine_is_as_asked_for(#[case] device: &str, #[case] became: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.args(["train", "mnist", "--smoke", "--json", "--device", device, "--interop-threads", "2"]);
    command.args(["--pin", "compact:1"]).env("GUESTSCOPE_WORKLOAD_FILE", folder.path().join("told.json"));
    let output = command.output().expect("cargo built the binary for this test");
    let line: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(line["threads"], 1);
    let told = std::fs::read(folder.path().join("told.json")).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert!(told["device"].as_str().is_some_and(|device| became.contains(&device)), "{}", told["device"]);
    assert_eq!(told["interop_threads"], 2);
    assert_eq!((&told["pin"], &told["threads"]), (&"compact:1".into(), &1.into()));
    assert!(told["pinned_cpus"].as_str().unwrap().parse::<u32>().is_ok(), "one CPU: {}", told["pinned_cpus"]);
    assert!(told.get("beside").is_none(), "nothing was");
}

#[rstest]
#[case::photographs_for_digits(&["mnist", "--data", "."], "error: MNIST CNN takes no photographs")]
#[case::no_folder(&["resnet50", "--data", "nowhere"], "error: cannot read folder: nowhere")]
#[case::no_such_device(&["mnist", "--device", "cuda:77"], "error: this build's libtorch has no CUDA: cuda:77")]
#[case::unknown(&["resnet51"], "a similar value exists: 'resnet50'")]
#[case::work_of_a_server(&["mnist", "--role", "ps", "--listen", "127.0.0.1:0", "--workers", "1", "--steps", "7"], "error: --steps has no meaning with --role ps: its workers say it")]
#[case::rate_of_a_worker(&["mnist", "--role", "worker", "--server", "a:1", "--rank", "0", "--learning-rate", "1"], "error: --learning-rate has no meaning with --role worker: the server says it")]
#[case::no_port(&["mnist", "--smoke", "--role", "worker", "--server", "localhost", "--rank", "0"], "error: not an address of a parameter server: localhost (no port)")]
#[case::nothing_to_load(&["mnist", "--loaders", "9"], "--data <DIR|FILE>")]
#[case::no_rate(&["mnist", "--learning-rate", "nan"], "a number above 0")]
fn what_cannot_be_is_refused(#[case] words: &[&str], #[case] says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, error) = program(folder.path(), words);
    assert_ne!(code, Some(0));
    assert_eq!(out, "");
    assert!(error.contains(says), "{error}");
}

/// The batch is 6 MB; what the forward pass keeps of it for the backward pass exceeds the memory.
#[test]
fn a_batch_too_large_for_memory_is_an_error_and_no_death() {
    let Some(group) = MemoryGroup::of("train.memory", 600 << 20) else { return };
    let train = |batch: &str| {
        let mut command = group.program();
        command.args(["train", "mnist", "--smoke", "--threads", "1", "--batch", batch]);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(train("2"), (Some(0), String::new()));
    let (code, error) = train("2000");
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("error: libtorch failed: ") && error.contains("can't allocate memory"), "{error}");
    assert!(error.ends_with("hint: if memory ran out, try a smaller --batch\n"), "{error}");
}

/// 244 MB of parameters fit, and their gradients do not.
#[test]
fn a_model_too_large_for_memory_is_named() {
    let Some(group) = MemoryGroup::of("train.model_memory", 400 << 20) else { return };
    let output = group.program().args(["train", "alexnet", "--smoke", "--threads", "1"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    let says = "error: not enough memory for a model: AlexNet, torchvision's (488806720 bytes needed, ";
    let hint = "hint: no option makes this model smaller: try another one, or more memory\n";
    assert!(error.starts_with(says) && error.ends_with(hint), "{error}");
}
