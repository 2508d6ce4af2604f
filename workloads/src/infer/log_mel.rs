//! Features of a recording as in MLPerf's reference of RNN-T: log power in 80 bands of the mel scale, every
//! 10 ms, three frames joined, and each feature normalised over the recording. There is no dither, so that
//! the same recording gives the same features.

use tch::{Kind, Tensor};

use crate::error::Error;

/// Bands of the mel scale.
pub const BANDS: usize = 80;
/// Frames joined into one step.
pub const SPLICE: i64 = 3;
/// Features of one step.
pub const FEATURES: i64 = BANDS as i64 * SPLICE;
/// Goes up when the same recording gives other features than before.
pub const VERSION: u64 = 1;

const RATE: f64 = 16_000.0;
/// Samples of a Fourier transform.
const TRANSFORM: i64 = 512;
/// Samples of a window, 20 ms, and the distance of two windows.
const WINDOW: i64 = 320;
const HOP: i64 = 160;
/// Fewest samples whose edges can be mirrored as far as a transform needs.
pub const SHORTEST: usize = TRANSFORM as usize / 2 + 1;
/// Pre-emphasis: share of the previous sample that is subtracted.
const EMPHASIS: f64 = 0.97;
/// Added before the logarithm, and to the deviation.
const POWER_FLOOR: f64 = 1e-20;
const DEVIATION_FLOOR: f64 = 1e-5;

/// Computes features; keeps what all recordings share.
pub struct LogMel {
    window: Tensor,
    /// `[BANDS, TRANSFORM / 2 + 1]`.
    bands: Tensor,
}

impl LogMel {
    pub fn new() -> Result<Self, Error> {
        let window = Tensor::f_hann_window_periodic(WINDOW, false, (Kind::Float, tch::Device::Cpu))?;
        let bands = Tensor::f_from_slice(&filters())?.f_view([BANDS as i64, -1])?;
        Ok(Self { window, bands })
    }

    /// Features `[steps, FEATURES]` of at least `SHORTEST` samples.
    pub fn features(&self, samples: &[f32]) -> Result<Tensor, Error> {
        let sound = Tensor::f_from_slice(samples)?;
        let behind = sound.f_narrow(0, 1, samples.len() as i64 - 1)?;
        let before = sound.f_narrow(0, 0, samples.len() as i64 - 1)?;
        let rest = behind.f_sub(&before.f_mul_scalar(EMPHASIS)?)?;
        let sound = Tensor::f_cat(&[sound.f_narrow(0, 0, 1)?, rest], 0)?;
        // The overload that mirrors the edges itself fails: tch always passes an option that it refuses.
        let margin = TRANSFORM / 2;
        let sound = sound.f_unsqueeze(0)?.f_reflection_pad1d([margin, margin])?.f_squeeze_dim(0)?;
        let window = Some(&self.window);
        let spectrum = sound.f_stft(TRANSFORM, HOP, WINDOW, window, false, true, true, false)?;
        let power = spectrum.f_abs()?.f_square()?;
        let bands = self.bands.f_matmul(&power)?.f_add_scalar(POWER_FLOOR)?.f_log()?;
        Ok(normalised(&spliced(&bands)?)?)
    }
}

/// Joins every third frame with the next two, zeros after the last: `[FEATURES, steps]`.
fn spliced(bands: &Tensor) -> Result<Tensor, tch::TchError> {
    let frames = bands.size()[1];
    let parts = (0..SPLICE)
        .map(|shift| {
            // Cut and padded, also with fewer frames than that.
            let shift = shift.min(frames);
            bands.f_narrow(1, shift, frames - shift)?.f_constant_pad_nd([0, shift])
        })
        .collect::<Result<Vec<_>, _>>()?;
    Tensor::f_cat(&parts, 0)?.f_slice(1, 0, None, SPLICE)
}

/// Each feature with mean 0 and deviation 1 over the steps, transposed.
fn normalised(features: &Tensor) -> Result<Tensor, tch::TchError> {
    let mean = features.f_mean_dim(1, true, Kind::Float)?;
    // One step has no deviation.
    let is_unbiased = features.size()[1] > 1;
    let deviation = features.f_std_dim(1, is_unbiased, true)?.f_add_scalar(DEVIATION_FLOOR)?;
    features.f_sub(&mean)?.f_div(&deviation)?.f_transpose(0, 1)?.f_contiguous()
}

/// Triangles on Slaney's mel scale, each of area 1, as librosa makes them: `[BANDS][TRANSFORM / 2 + 1]`.
fn filters() -> Vec<f32> {
    let bins = TRANSFORM as usize / 2 + 1;
    let most = mel(RATE / 2.0);
    let edges: Vec<f64> = (0..BANDS + 2).map(|edge| hertz(most * edge as f64 / (BANDS + 1) as f64)).collect();
    let mut weights = Vec::with_capacity(BANDS * bins);
    for edge in edges.windows(3) {
        let area = 2.0 / (edge[2] - edge[0]);
        for bin in 0..bins {
            let at = bin as f64 * RATE / TRANSFORM as f64;
            let rising = (at - edge[0]) / (edge[1] - edge[0]);
            let falling = (edge[2] - at) / (edge[2] - edge[1]);
            weights.push((rising.min(falling).max(0.0) * area) as f32);
        }
    }
    weights
}

/// Slaney's scale: linear below 1 kHz, logarithmic above.
const LINEAR_HERTZ: f64 = 200.0 / 3.0;
const BREAK_HERTZ: f64 = 1000.0;
const BREAK_MEL: f64 = BREAK_HERTZ / LINEAR_HERTZ;

/// Growth of a frequency's logarithm per mel.
fn log_step() -> f64 {
    6.4_f64.ln() / 27.0
}

fn mel(hertz: f64) -> f64 {
    if hertz < BREAK_HERTZ {
        hertz / LINEAR_HERTZ
    } else {
        BREAK_MEL + (hertz / BREAK_HERTZ).ln() / log_step()
    }
}

fn hertz(mel: f64) -> f64 {
    if mel < BREAK_MEL { mel * LINEAR_HERTZ } else { BREAK_HERTZ * ((mel - BREAK_MEL) * log_step()).exp() }
}

#[cfg(test)]
mod tests {
    use super::{BANDS, FEATURES, LogMel, SHORTEST, filters, hertz, mel};

    #[test]
    fn the_mel_scale_is_slaneys() {
        assert!((mel(1000.0) - 15.0).abs() < 1e-12 && (mel(6400.0) - 42.0).abs() < 1e-9);
        assert!((hertz(mel(300.0)) - 300.0).abs() < 1e-9 && (hertz(mel(5000.0)) - 5000.0).abs() < 1e-9);
    }

    /// 15 s are 1,501 frames, and 501 steps of three.
    #[test]
    fn a_recording_gives_a_step_every_30_ms() {
        let features = LogMel::new().unwrap().features(&vec![0.1; 240_000]).unwrap();
        assert_eq!(features.size(), [501, FEATURES]);
        for length in [SHORTEST, 400, 1000] {
            let features = LogMel::new().unwrap().features(&vec![0.1; length]).unwrap();
            assert_eq!(features.size(), [(length / 160 + 1).div_ceil(3) as i64, FEATURES]);
            assert!(!bool::try_from(features.isnan().any()).unwrap());
        }
    }

    /// The triangle with its tip at 1,006 Hz weighs 1 kHz most; the widest has area 1 in steps of 31.25 Hz.
    #[test]
    fn triangles_stand_where_librosa_puts_them() {
        let filters = filters();
        let bands: Vec<&[f32]> = filters.chunks_exact(257).collect();
        assert_eq!(bands.len(), BANDS);
        let heaviest = (0..BANDS).max_by(|one, other| bands[*one][32].total_cmp(&bands[*other][32]));
        assert_eq!(heaviest, Some(26));
        let area = bands[79].iter().sum::<f32>() * 31.25;
        assert!((area - 1.0).abs() < 0.02, "{area}");
        assert!(bands.iter().all(|band| band.iter().any(|weight| *weight > 0.0)));
    }
}
