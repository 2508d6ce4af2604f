//! The models of `infer` against PyTorch's own modules: always a few of the numbers that
//! `pytorch_reference.py` printed at small scale, and at full scale with the feature `torchvision-tests`,
//! where GUESTSCOPE_TORCHVISION_PYTHON names a Python with torch and numpy.
#![cfg(feature = "torch")]
#![expect(clippy::unwrap_used, reason = "what several tests share fails like a test")]

use guestscope_workloads::{
    data::clicks::{CATEGORIES, COUNTS},
    infer::{
        BERT_PARAMETERS, DLRM_PARAMETERS, RNNT_PARAMETERS, Settings,
        bert::{self, Bert},
        dlrm::{self, Dlrm},
        log_mel::LogMel,
        rnnt::{self, Rnnt},
        sizing::{Precision, Scale},
    },
    load::{Plan, Target, scenario::Scenario},
};
use rstest::rstest;
use tch::Tensor;

fn settings(scale: &str) -> Settings {
    // One thread, for tests that run side by side.
    tch::set_num_threads(1);
    let target = Target { percentile: 90.0, latency_ns: 1 };
    Settings {
        plan: Plan {
            scenario: Scenario::SingleStream,
            requests: 1,
            duration_ns: 0,
            warmup: 0,
            workers: 1,
            qps: None,
            target,
            find_peak: false,
            seed: 1,
            progress: false,
        },
        batch: 1,
        threads: 1,
        seed: 1,
        data: None,
        generated: 1,
        weights: None,
        vocabulary: None,
        scale: scale.parse().expect("it is a scale"),
        precision: Precision::Fp32,
    }
}

fn assert_near(what: &str, found: &Tensor, expected: &[f64]) {
    let found = Vec::<f64>::try_from(found.to_kind(tch::Kind::Double)).unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-4, "{what}, {place}: {found}, expected {expected}");
    }
}

fn clicks(settings: &Settings) -> Tensor {
    let model = Dlrm::new(settings).unwrap();
    let counts: Vec<f32> =
        (0..5 * COUNTS).map(|i| ((i / COUNTS * 7 + i % COUNTS * 3) % 11) as f32 / 5.0).collect();
    let rows: Vec<Tensor> = (0..CATEGORIES)
        .map(|category| {
            let rows = (0..5).map(|line| (line * 1009 + category as i64 * 37) % model.sizes.tables[category]);
            Tensor::from_slice(&rows.collect::<Vec<i64>>())
        })
        .collect();
    model.probabilities(&Tensor::from_slice(&counts).view([5, COUNTS as i64]), &rows).unwrap()
}

#[test]
fn dlrm_has_the_parameters_of_the_study() {
    let full = dlrm::Sizes::new(Scale::FULL);
    assert_eq!(full.tables.iter().sum::<i64>() * 16, 540_201_232);
    assert_eq!(full.parameters(), DLRM_PARAMETERS);
    let shapes = Dlrm::new(&settings("0.01")).unwrap().parameters.shapes();
    assert_eq!(shapes.len(), 26 + 2 * 4 + 2 * 3);
    assert_eq!(shapes["emb_l.2.weight"], [101_312, 16]);
    assert_eq!(shapes["bot_l.6.bias"], [16]);
    assert_eq!(shapes["top_l.0.weight"], [8, 367]);
}

#[test]
fn dlrm_agrees_with_pytorch() {
    let expected = [0.284_588_2, 0.434_128_1, 0.672_917_3, 0.773_030_8, 0.178_800_6];
    assert_near("dlrm", &clicks(&settings("0.02")), &expected);
}

/// Two windows, the second one of 40 tokens; the numbers of three tokens of each, and of all at full scale.
fn answers(settings: &Settings) -> Tensor {
    let model = Bert::new(settings).unwrap();
    let is_full = settings.scale == Scale::FULL;
    let length = if is_full { 384 } else { 64 };
    let each = |value: fn(i64, i64) -> i64| {
        let values: Vec<i64> = (0..2 * length).map(|i| value(i / length, i % length)).collect();
        Tensor::from_slice(&values).view([2, length])
    };
    let tokens = each(|window, at| (window * 977 + at * 37) % 29_000 + 1000);
    let segments = each(|_, at| i64::from(at >= 12));
    let mask = each(|window, at| i64::from(window == 0 || at < 40));
    let logits = model.logits(&tokens, &segments, &mask).unwrap();
    if is_full {
        return logits.flatten(0, -1);
    }
    logits.index_select(1, &Tensor::from_slice(&[0_i64, 17, 39])).flatten(0, -1)
}

#[test]
fn bert_has_the_parameters_of_the_study() {
    assert_eq!(bert::Sizes::new(Scale::FULL).parameters(), BERT_PARAMETERS);
    let shapes = Bert::new(&settings("0.1")).unwrap().parameters.shapes();
    assert_eq!(shapes.len(), 5 + 2 * 16 + 2);
    assert_eq!(shapes["bert.embeddings.word_embeddings.weight"], [30_522, 128]);
    assert_eq!(shapes["bert.encoder.layer.1.attention.self.query.weight"], [128, 128]);
    assert_eq!(shapes["bert.encoder.layer.0.attention.output.LayerNorm.bias"], [128]);
    assert_eq!(shapes["bert.encoder.layer.1.output.dense.weight"], [128, 512]);
    assert_eq!(shapes["qa_outputs.weight"], [2, 128]);
}

/// The padding after the 40 tokens of the second window has no effect on them, or it would not agree.
#[test]
fn bert_agrees_with_pytorchs_encoder() {
    let expected = [
        -0.696_024_7,
        0.834_564_1,
        0.412_736_8,
        0.725_078_5,
        -0.410_393_8,
        -0.182_828_5,
        -0.084_507_2,
        0.467_399_4,
        0.581_380_6,
        0.810_965_8,
        -0.676_467_1,
        -0.528_806_1,
    ];
    assert_near("bert", &answers(&settings("0.1")), &expected);
}

/// A second of a rising saw-tooth, and of pseudo-random numbers.
fn recording() -> Vec<f32> {
    (0..16_000_u32)
        .map(|at| {
            let (tooth, noise) = (f64::from(at * at % 997), f64::from(at * 7919 % 1009));
            (tooth / 997.0 * 0.5 + noise / 1009.0 * 0.1 - 0.3) as f32
        })
        .collect()
}

#[test]
fn log_mel_agrees_with_pytorch() {
    let features = LogMel::new().unwrap().features(&recording()).unwrap();
    let (steps, places) =
        (Tensor::from_slice(&[0_i64, 5, 33]), Tensor::from_slice(&[0_i64, 40, 79, 80, 159, 160, 239]));
    let found = features.index_select(0, &steps).index_select(1, &places).flatten(0, -1);
    let expected = [
        0.298_041_6,
        0.208_073_8,
        -1.113_558_3,
        -0.233_682_5,
        0.274_901_8,
        -0.769_650_4,
        0.567_309_9,
        -0.154_309,
        0.854_645_5,
        -0.213_404_5,
        -0.443_077,
        -0.377_297_4,
        -0.396_366_1,
        1.225_278_4,
        0.660_636,
        -0.203_488_9,
        -0.791_757_7,
        2.468_110_6,
        -1.542_108_3,
        4.122_621_1,
        1.230_681_8,
    ];
    assert_near("features", &found, &expected);
}

/// Five numbers of each of three encoded steps, from an odd number of steps; four of the joint after one of
/// them and three symbols; all of them at full scale.
fn speech(settings: &Settings) -> Tensor {
    let model = Rnnt::new(settings).unwrap();
    let features = LogMel::new().unwrap().features(&recording()).unwrap();
    let encoded = model.encode(&features.narrow(0, 0, 33).unsqueeze(1)).unwrap().squeeze_dim(1);
    let joined = model.logits(&encoded.get(7), &[3, 0, 27]).unwrap();
    if settings.scale == Scale::FULL {
        return Tensor::cat(&[encoded.flatten(0, -1), joined], 0);
    }
    let steps = encoded.index_select(0, &Tensor::from_slice(&[0_i64, 7, 16])).narrow(1, 0, 5);
    let joined = joined.index_select(0, &Tensor::from_slice(&[0_i64, 1, 27, 28]));
    Tensor::cat(&[steps.flatten(0, -1), joined], 0)
}

#[test]
fn rnnt_has_the_parameters_of_the_study() {
    assert_eq!(rnnt::Sizes::new(Scale::FULL).parameters(), RNNT_PARAMETERS);
    let model = Rnnt::new(&settings("1")).unwrap();
    assert_eq!(model.parameters.count(), RNNT_PARAMETERS.cast_signed());
    let of = |begin: &str| {
        let shapes = model.parameters.shapes().into_iter().filter(|(name, _)| name.starts_with(begin));
        shapes.map(|(_, shape)| shape.iter().product::<usize>()).sum::<usize>()
    };
    assert_eq!(["encoder.", "prediction.", "joint_net."].map(of), [42_967_040, 1_652_480, 703_517]);
}

#[test]
fn rnnt_agrees_with_pytorchs_lstm() {
    let expected = [
        0.045_167_8,
        -0.006_806_7,
        -0.031_813_2,
        0.014_793_8,
        0.053_307_1,
        -0.301_147_8,
        0.059_780_6,
        -0.089_474_5,
        -0.062_749_4,
        0.243_382_3,
        -0.368_894_8,
        -0.219_556_8,
        -0.511_828_5,
        0.082_676,
        0.330_972_9,
        2.678_079_1,
        -0.311_391_2,
        0.379_578_3,
        0.530_209_2,
    ];
    assert_near("rnnt", &speech(&settings("0.1")), &expected);
}

/// The symbols are the joint's likeliest, one after the other, until the blank or the most that one step may
/// give.
#[test]
fn rnnt_takes_the_likeliest_symbols() {
    let model = Rnnt::new(&settings("0.1")).unwrap();
    let features = LogMel::new().unwrap().features(&recording()).unwrap();
    // Each symbol is computed from the start, so few steps.
    let encoded = model.encode(&features.narrow(0, 0, 8).unsqueeze(1)).unwrap().squeeze_dim(1);
    let mut expected = Vec::new();
    for step in 0..encoded.size()[0] {
        for _ in 0..model.sizes.most_symbols {
            let symbol =
                model.logits(&encoded.get(step), &expected).unwrap().argmax(0, false).int64_value(&[]);
            if symbol == 28 {
                break;
            }
            expected.push(symbol as usize);
        }
    }
    assert_eq!(model.symbols(&encoded).unwrap(), expected);
    assert!(!expected.is_empty());
}

/// Eight bits of each number remain: an error of at most 0.4 % in each layer, in either direction. The
/// weights are the same, and the output no longer is to the bit.
#[rstest]
#[case::dlrm(clicks)]
#[case::bert(answers)]
#[case::rnnt(speech)]
fn of_half_the_precision_comes_nearly_the_same(#[case] outputs: fn(&Settings) -> Tensor) {
    let numbers = |precision| {
        let outputs = outputs(&Settings { precision, ..settings("0.1") });
        Vec::<f64>::try_from(outputs.to_kind(tch::Kind::Double)).unwrap()
    };
    let (full, half) = (numbers(Precision::Fp32), numbers(Precision::Bf16));
    assert_eq!(full.len(), half.len());
    let size: f64 = full.iter().map(|number| number.abs()).sum();
    let apart: f64 = full.iter().zip(&half).map(|(full, half)| (full - half).abs()).sum();
    assert!(apart > 0.0 && apart < size * 0.05, "{apart} of {size}: {half:?} instead of {full:?}");
}

/// Runs the script at full scale.
#[cfg(feature = "torchvision-tests")]
fn reference(model: &str) -> Vec<f64> {
    let python = std::env::var_os("GUESTSCOPE_TORCHVISION_PYTHON").expect("a Python with torch");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pytorch_reference.py");
    // The Python brings its own libtorch.
    let output = std::process::Command::new(python)
        .args([script, model, "1"])
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[cfg(feature = "torchvision-tests")]
#[test]
fn full_models_agree_with_pytorch() {
    let full = settings("1");
    assert_near("dlrm", &clicks(&full), &reference("dlrm"));
    assert_near("bert", &answers(&full), &reference("bert"));
    assert_near("rnnt", &speech(&full), &reference("rnnt"));
}
