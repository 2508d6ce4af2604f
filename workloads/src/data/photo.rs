//! Makes pictures that cost as much as photographs: 500 x 375 pixels like most of ImageNet's, coloured, with
//! the amplitude spectrum of natural scenes, which falls as 1/f (Field, "Relations between the statistics of
//! natural images", J. Opt. Soc. Am. A 4, 1987), and therefore about ImageNet's bytes per JPEG file. Yields
//! the bytes of a file, the same for a seed on every machine. They show nothing: no classifier can be judged
//! by them.

use jpeg_encoder::{ColorType, Encoder, EncodingError, SamplingFactor};

use super::{
    fourier::{Complex, Inverse},
    random::Random,
};

pub const WIDTH: u16 = 500;
pub const HEIGHT: u16 = 375;
/// Quality of the JPEG encoder, 1 to 100.
pub const QUALITY: u8 = 90;
/// Goes up when the same seed gives different bytes than before.
pub const GENERATOR_VERSION: u64 = 1;

/// The noise is made periodic on this square, and a picture is cut out of it.
const SIDE: usize = 512;

/// Mean of ImageNet's pixels: luma 117.4, and a colour cast towards red and yellow (from the channel means
/// 123.7, 116.8, 103.9 that every ResNet subtracts).
const MEAN_LUMA: f32 = 117.4;
const MEAN_BLUE: f32 = -7.6;
const MEAN_RED: f32 = 4.5;

/// Maker of pictures; holds the transform, which is the same for all.
pub struct Photographer {
    inverse: Inverse,
    seed: u64,
}

/// Red, green and blue bytes, row by row.
pub struct Picture {
    pub rgb: Vec<u8>,
}

impl Photographer {
    pub fn new(seed: u64) -> Self {
        Self { inverse: Inverse::new(SIDE), seed }
    }

    /// Picture number `index` of this seed.
    pub fn picture(&self, index: u64) -> Picture {
        let mut random = Random::new(self.seed, index);
        let (luma, blue) = self.fields(&mut random);
        let (red, _) = self.fields(&mut random);
        // Scenes differ: a bright one, a flat one. These ranges give files of 75 to 134 kB, 107 kB on
        // average; the pixels deviate by 45 from their mean (ImageNet's: 57).
        let mean = MEAN_LUMA + random.uniform(-30.0, 30.0);
        let contrast = random.uniform(20.0, 60.0);
        let colour = contrast * random.uniform(0.1, 0.25);
        let mut rgb = Vec::with_capacity(usize::from(WIDTH) * usize::from(HEIGHT) * 3);
        for ((luma, blue), red) in luma.into_iter().zip(blue).zip(red) {
            rgb.extend(to_rgb(mean + contrast * luma, MEAN_BLUE + colour * blue, MEAN_RED + colour * red));
        }
        Picture { rgb }
    }

    /// Two independent fields of mean 0 and deviation 1, cut to the picture. The transform of complex noise
    /// has two: its real and its imaginary part.
    fn fields(&self, random: &mut Random) -> (Vec<f32>, Vec<f32>) {
        let mut square: Vec<Complex> = (0..SIDE * SIDE)
            .map(|i| {
                let (u, v) = (frequency(i % SIDE), frequency(i / SIDE));
                let squared = u * u + v * v;
                let amplitude = if squared == 0.0 { 0.0 } else { 1.0 / squared.sqrt() };
                Complex { re: random.roughly_normal() * amplitude, im: random.roughly_normal() * amplitude }
            })
            .collect();
        self.inverse.square(&mut square);
        let cut: Vec<Complex> = (0..usize::from(HEIGHT))
            .flat_map(|y| square[y * SIDE..y * SIDE + usize::from(WIDTH)].iter().copied())
            .collect();
        (normalised(cut.iter().map(|c| c.re)), normalised(cut.iter().map(|c| c.im)))
    }
}

impl Picture {
    /// The bytes of a baseline JPEG file with 4:2:0 chroma, the commonest kind in ImageNet.
    pub fn to_jpeg(&self) -> Result<Vec<u8>, EncodingError> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, QUALITY);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        encoder.encode(&self.rgb, WIDTH, HEIGHT, ColorType::Rgb)?;
        Ok(bytes)
    }
}

/// Cycles per `SIDE` of row or column `i` of the spectrum: the upper half stands for negative ones.
fn frequency(i: usize) -> f64 {
    if i < SIDE / 2 { i as f64 } else { i as f64 - SIDE as f64 }
}

/// Scales values to mean 0, deviation 1.
fn normalised(values: impl Iterator<Item = f64> + Clone) -> Vec<f32> {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.clone().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let scale = 1.0 / variance.sqrt();
    values.map(|x| ((x - mean) * scale) as f32).collect()
}

/// RGB from luma (0 to 255) and the two colour differences (about 0), as in JFIF.
fn to_rgb(luma: f32, blue: f32, red: f32) -> [u8; 3] {
    // `as` clips to 0..=255, as the sensor of a camera does.
    [luma + 1.402 * red, luma - 0.344_136 * blue - 0.714_136 * red, luma + 1.772 * blue]
        .map(|value| (value + 0.5) as u8)
}

#[cfg(test)]
mod tests {
    use std::{f64::consts::TAU, sync::LazyLock};

    use super::{HEIGHT, Photographer, WIDTH};
    use crate::{data::image::decode, digest::Digest};

    /// The first files of seed 1. Made once: without optimisation that takes half a second each.
    static JPEGS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| (0..8).map(|index| jpeg(1, index)).collect());

    fn jpeg(seed: u64, index: u64) -> Vec<u8> {
        Photographer::new(seed).picture(index).to_jpeg().unwrap()
    }

    /// Luma of a JPEG file, row by row.
    fn luma(jpeg: &[u8]) -> Vec<f64> {
        let (rgb, width, height) = decode(jpeg).unwrap();
        assert_eq!((width, height), (u32::from(WIDTH), u32::from(HEIGHT)));
        rgb.chunks_exact(3)
            .map(|p| 0.299 * f64::from(p[0]) + 0.587 * f64::from(p[1]) + 0.114 * f64::from(p[2]))
            .collect()
    }

    /// Power at `(u, v)` cycles per picture width, by the plain sum, independent of the generator's
    /// transform. A Hann window keeps the picture's edges from looking like high frequencies.
    fn power(luma: &[f64], u: f64, v: f64) -> f64 {
        let width = f64::from(WIDTH);
        // Per column, or row: window and phase. The phase of a pixel is the sum of the two.
        let waves = |length: u16, cycles: f64| -> Vec<(f64, f64)> {
            (0..length)
                .map(|i| {
                    let hann = (TAU * (f64::from(i) + 0.5) / f64::from(length) / 2.0).sin().powi(2);
                    let (sin, cos) = (TAU * cycles * f64::from(i) / width).sin_cos();
                    (hann * cos, hann * sin)
                })
                .collect()
        };
        let columns = waves(WIDTH, u);
        let (mut re, mut im) = (0.0, 0.0);
        for (row, (cos, sin)) in luma.chunks_exact(usize::from(WIDTH)).zip(waves(HEIGHT, v)) {
            let along = |part: fn(&(f64, f64)) -> f64| -> f64 {
                row.iter().zip(&columns).map(|(value, wave)| (value - 117.0) * part(wave)).sum()
            };
            let (x_re, x_im) = (along(|wave| wave.0), along(|wave| wave.1));
            re += x_re * cos - x_im * sin;
            im += x_re * sin + x_im * cos;
        }
        re * re + im * im
    }

    /// The slope of log amplitude over log frequency, from 8 to 64 cycles per picture, over `directions`.
    fn slope(pictures: &[Vec<f64>], directions: &[f64]) -> f64 {
        let points: Vec<(f64, f64)> = [8.0_f64, 16.0, 32.0, 64.0]
            .into_iter()
            .map(|f| {
                let sum: f64 = pictures
                    .iter()
                    .flat_map(|luma| directions.iter().map(move |a| power(luma, f * a.cos(), f * a.sin())))
                    .sum();
                (f.ln(), 0.5 * sum.ln())
            })
            .collect();
        let count = points.len() as f64;
        let mx = points.iter().map(|p| p.0).sum::<f64>() / count;
        let my = points.iter().map(|p| p.1).sum::<f64>() / count;
        let covariance: f64 = points.iter().map(|(x, y)| (x - mx) * (y - my)).sum();
        covariance / points.iter().map(|(x, _)| (x - mx) * (x - mx)).sum::<f64>()
    }

    /// Natural scenes: amplitude falls as 1/f in every direction. Twelve directions of four pictures leave a
    /// standard error of about 0.04 in the slope (48 exponentially distributed powers per frequency).
    #[test]
    fn amplitude_falls_as_one_over_f() {
        let pictures: Vec<Vec<f64>> = JPEGS[..4].iter().map(|jpeg| luma(jpeg)).collect();
        let directions: Vec<f64> = (0..12).map(|i| TAU / 2.0 * f64::from(i) / 12.0).collect();
        let slope = slope(&pictures, &directions);
        assert!((slope + 1.0).abs() < 0.15, "{slope}");
    }

    #[test]
    fn pictures_are_coloured_and_as_bright_as_photographs() {
        let (mut sums, mut squares, mut colour, mut count) = ([0.0; 3], [0.0; 3], 0.0, 0.0);
        for jpeg in JPEGS.iter() {
            for pixel in decode(jpeg).unwrap().0.chunks_exact(3) {
                for (channel, value) in pixel.iter().enumerate() {
                    sums[channel] += f64::from(*value);
                    squares[channel] += f64::from(*value) * f64::from(*value);
                }
                colour += (f64::from(pixel[0]) - f64::from(pixel[2])).abs();
                count += 1.0;
            }
        }
        for channel in 0..3 {
            let mean = sums[channel] / count;
            let deviation = (squares[channel] / count - mean * mean).sqrt();
            assert!((85.0..150.0).contains(&mean), "channel {channel}: mean {mean}");
            assert!((35.0..60.0).contains(&deviation), "channel {channel}: deviation {deviation}");
        }
        assert!(colour / count > 10.0, "red and blue differ by {}", colour / count);
    }

    /// The bytes are the same on every machine, and change only with GENERATOR_VERSION.
    #[test]
    fn a_seed_decides_every_byte() {
        let digest = |bytes: &[u8]| {
            let mut digest = Digest::default();
            digest.bytes(bytes);
            digest.to_string()
        };
        insta::assert_snapshot!(digest(&JPEGS[0]), @"da2a03630a126c52");
        insta::assert_snapshot!(digest(&JPEGS[1]), @"8d74938d7b9a8e9a");
        assert_ne!(jpeg(2, 0), JPEGS[0]);
    }

    /// ImageNet's training files are 110 kB on average: 137.6 GB and 1,281,167 files.
    #[test]
    fn files_are_as_large_as_photographs() {
        let sizes: Vec<usize> = JPEGS.iter().map(Vec::len).collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((80_000..130_000).contains(&mean), "{mean}: {sizes:?}");
    }
}
