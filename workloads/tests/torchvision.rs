//! ResNet-50 and the preparation of pictures against torchvision: always against a few of its numbers, and
//! against whole tensors with the feature `torchvision-tests`, where GUESTSCOPE_TORCHVISION_PYTHON names a
//! Python with torch, torchvision, Pillow and safetensors (5 GB, so `cargo xtask test` leaves it out).
#![cfg(feature = "torch")]

#[cfg(feature = "torchvision-tests")]
use guestscope_workloads::data::{
    image::{Preparer, VALUES},
    photo::Photographer,
};
use guestscope_workloads::infer::{RESNET50_PARAMETERS, resnet::ResNet50};
use tch::{Kind, Tensor};

/// One thread, for tests that run side by side.
fn seeded() -> ResNet50 {
    tch::set_num_threads(1);
    ResNet50::seeded(1).expect("the model needs nothing but memory")
}

#[test]
fn has_the_parameters_of_resnet50() {
    let model = seeded();
    assert_eq!(model.parameters(), RESNET50_PARAMETERS.cast_signed());
    let shapes = model.shapes();
    // 53 convolutions, 53 normalisations of four tensors, and the classifier's two.
    assert_eq!(shapes.len(), 53 + 53 * 4 + 2);
    assert_eq!(shapes["layer4.0.downsample.0.weight"], [2048, 1024, 1, 1]);
}

/// The logits that torchvision 0.28's resnet50 (torch 2.13) gave for the weights of seed 1, drawn in Python
/// by the same rule, and for this pattern. With the stride in `conv1`, as in v1, the first logit is 1.4319.
#[test]
fn agrees_with_torchvisions_logits() {
    let values: Vec<f32> = (0..3 * 224 * 224)
        .map(|i| {
            let (channel, y, x) = (i / (224 * 224), i / 224 % 224, i % 224);
            f32::from(((channel * 7 + y * 3 + x * 5) % 11) as u8) / 5.0 - 1.0
        })
        .collect();
    let logits = seeded().logits(&Tensor::from_slice(&values).view([1, 3, 224, 224])).unwrap();
    assert_eq!(logits.size(), [1, 1000]);
    for (class, expected) in [1.452_391, -1.115_332, -0.631_939, -1.278_825].into_iter().enumerate() {
        let logit = logits.double_value(&[0, class as i64]);
        assert!((logit - expected).abs() < 1e-4, "class {class}: {logit}, expected {expected}");
    }
    let (_, classes) = logits.topk(5, -1, true, true);
    assert_eq!(Vec::<i64>::try_from(classes.flatten(0, -1)).unwrap(), [962, 6, 774, 736, 165]);
}

#[test]
fn a_wrong_input_is_an_error_and_no_crash() {
    let model = seeded();
    let error = model.logits(&Tensor::zeros([1, 4, 224, 224], (Kind::Float, tch::Device::Cpu))).unwrap_err();
    insta::assert_snapshot!(error, @"libtorch failed: Given groups=1, weight of size [64, 3, 7, 7], expected input[1, 4, 224, 224] to have 3 channels, but got 4 channels instead");
}

/// The script draws weights (all of them, the running statistics too), prepares the picture, computes the
/// logits.
#[cfg(feature = "torchvision-tests")]
#[test]
fn agrees_with_the_whole_of_torchvision() {
    let python = std::env::var_os("GUESTSCOPE_TORCHVISION_PYTHON").expect("a Python with torchvision");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let jpeg = Photographer::new(1).picture(0).to_jpeg().unwrap();
    std::fs::write(at("picture.jpg"), &jpeg).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torchvision_reference.py");
    // The Python brings its own libtorch.
    let status = std::process::Command::new(python)
        .arg(script)
        .arg(folder.path())
        .env_remove("LD_LIBRARY_PATH")
        .status()
        .unwrap();
    assert!(status.success(), "{script}: {status}");

    let reference: std::collections::HashMap<String, Tensor> =
        Tensor::read_safetensors(at("reference.safetensors")).unwrap().into_iter().collect();
    let mut values = vec![0.0; VALUES];
    Preparer::default().prepare(&jpeg, &mut values).unwrap();
    let prepared = Tensor::from_slice(&values).view([1, 3, 224, 224]);
    let apart = |one: &Tensor, other: &Tensor| (one - other).abs();
    let pixels = apart(&prepared, &reference["prepared"]);
    let (worst, mean) = (pixels.max().double_value(&[]), pixels.mean(Kind::Float).double_value(&[]));
    // A byte's step is 0.0176 here. Two decoders of JPEG, each within the standard, differ in rounding and in
    // how they enlarge the colour planes. Measured: 4 steps at the worst pixel before resizing; after it 3,
    // and 0.41 on average.
    assert!(worst < 5.0 * 0.0176 && mean < 0.6 * 0.0176, "prepared: worst {worst}, mean {mean}");

    tch::set_num_threads(1);
    let model = ResNet50::from_file(&at("weights.safetensors")).unwrap();
    let logits = model.logits(&reference["prepared"]).unwrap();
    let worst = apart(&logits, &reference["logits"]).max().double_value(&[]);
    assert!(worst < 1e-4, "logits: {worst}");
}
