//! Synthetic recordings that sound like speech: voice pulses and some noise through three resonances that
//! change from syllable to syllable, with pauses. Yields WAV files of 16 kHz, the same to the bit on every
//! machine: only exactly rounded operations, so sine and exponential are sums of a series.

use super::{random::Random, wav};

/// Samples per second.
pub const RATE: u32 = wav::RATE;
/// Length of one recording, as in the study.
pub const SECONDS: u32 = 15;
/// Goes up when the same seed gives other recordings than before.
pub const GENERATOR_VERSION: u64 = 1;

/// The first three resonances of vowels, hertz.
const VOWELS: [[f64; 3]; 6] = [
    [730.0, 1090.0, 2440.0],
    [270.0, 2290.0, 3010.0],
    [300.0, 870.0, 2240.0],
    [530.0, 1840.0, 2480.0],
    [570.0, 840.0, 2410.0],
    [490.0, 1350.0, 1690.0],
];
const BANDWIDTHS: [f64; 3] = [80.0, 100.0, 140.0];
const LOUDNESS: [f64; 3] = [1.0, 0.6, 0.3];

/// The content of file number `place`, 480 kB.
pub fn file(seed: u64, place: u64) -> Vec<u8> {
    let mut random = Random::new(seed, place);
    let total = (RATE * SECONDS) as usize;
    let mut samples: Vec<f64> = Vec::with_capacity(total);
    while samples.len() < total {
        syllable(&mut random, total, &mut samples);
        if random.u64().is_multiple_of(4) {
            pause(&mut random, total, &mut samples);
        }
    }
    let loudest = samples.iter().fold(0.0_f64, |most, sample| most.max(sample.abs()));
    let gain = 16_000.0 / loudest;
    let samples: Vec<i16> = samples.into_iter().map(|sample| (sample * gain) as i16).collect();
    wav::write(&samples)
}

/// 80 to 240 ms of one vowel, louder and softer again.
fn syllable(random: &mut Random, total: usize, samples: &mut Vec<f64>) {
    let length = (1280 + (random.u64() % 2560) as usize).min(total - samples.len());
    // 80 to 250 Hz.
    let period = 64 + random.u64() % 137;
    let vowel = VOWELS[(random.u64() % VOWELS.len() as u64) as usize];
    let mut resonators = [0, 1, 2].map(|index| Resonator::new(vowel[index], BANDWIDTHS[index]));
    for at in 0..length {
        let pulse = if (at as u64).is_multiple_of(period) { 1.0 } else { 0.0 };
        let source = pulse + 0.02 * random.roughly_normal();
        let voice: f64 = resonators
            .iter_mut()
            .zip(LOUDNESS)
            .map(|(resonator, loudness)| loudness * resonator.next(source))
            .sum();
        let edge = at.min(length - 1 - at) as f64 / 400.0;
        samples.push(voice * edge.min(1.0));
    }
}

/// 60 to 310 ms of breath.
fn pause(random: &mut Random, total: usize, samples: &mut Vec<f64>) {
    let length = (960 + (random.u64() % 4000) as usize).min(total - samples.len());
    samples.extend((0..length).map(|_| 0.004 * random.roughly_normal()));
}

/// Rings at one frequency.
struct Resonator {
    forward: f64,
    back: f64,
    gain: f64,
    before: [f64; 2],
}

impl Resonator {
    fn new(hertz: f64, bandwidth: f64) -> Self {
        let rate = f64::from(RATE);
        let radius = exponential(-std::f64::consts::PI * bandwidth / rate);
        let angle = 2.0 * std::f64::consts::PI * hertz / rate;
        Self {
            forward: 2.0 * radius * cosine(angle),
            back: -radius * radius,
            gain: 1.0 - radius,
            before: [0.0; 2],
        }
    }

    fn next(&mut self, source: f64) -> f64 {
        let [last, second_last] = self.before;
        let sample = self.gain * source + self.forward * last + self.back * second_last;
        self.before = [sample, last];
        sample
    }
}

/// Cosine for 0 to pi; off by less than 1e-9.
fn cosine(angle: f64) -> f64 {
    let square = angle * angle;
    let mut term = 1.0;
    let mut sum = 1.0;
    for index in 1..=12 {
        let even = 2.0 * f64::from(index);
        term *= -square / ((even - 1.0) * even);
        sum += term;
    }
    sum
}

/// Exponential for -1 to 1; off by less than 1e-9.
fn exponential(power: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for index in 1..=13 {
        term *= power / f64::from(index);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::{RATE, SECONDS, cosine, exponential, file};
    use crate::data::wav;

    #[test]
    fn series_agree_with_the_library() {
        for step in 0..=100 {
            let angle = f64::from(step) / 100.0 * std::f64::consts::PI;
            assert!((cosine(angle) - angle.cos()).abs() < 1e-9, "{angle}");
            let power = f64::from(step) / 50.0 - 1.0;
            assert!((exponential(power) - power.exp()).abs() < 1e-9, "{power}");
        }
    }

    #[test]
    fn a_seed_and_a_place_decide_a_recording() {
        assert_eq!(file(1, 2), file(1, 2));
        assert_ne!(file(1, 2), file(1, 3));
        assert_ne!(file(1, 2), file(2, 2));
    }

    /// Neither silent nor clipped, and not the same all the time.
    #[test]
    fn a_recording_has_loud_and_soft_parts() {
        let samples = wav::read(&file(4, 0)).unwrap();
        assert_eq!(samples.len(), (RATE * SECONDS) as usize);
        let loud: Vec<f32> = samples
            .chunks_exact(1600)
            .map(|part| (part.iter().map(|sample| sample * sample).sum::<f32>() / 1600.0).sqrt())
            .collect();
        let most = loud.iter().copied().fold(0.0, f32::max);
        let least = loud.iter().copied().fold(1.0, f32::min);
        assert!(most > 0.02 && least < most / 5.0, "{least} {most}");
        assert!(samples.iter().all(|sample| sample.abs() < 0.5));
    }
}
