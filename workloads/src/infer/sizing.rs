//! How large a model is made, and in what numbers it computes: what `--scale` and `--precision` say. It makes
//! no model.

use std::{fmt, str::FromStr};

use clap::ValueEnum;

/// The part of a model's tables and layers that is kept, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale(f64);

#[derive(Debug, thiserror::Error)]
#[error("a scale is a number above 0, at most 1 (the size of the study)")]
pub struct NotAScale;

impl Scale {
    pub const FULL: Self = Self(1.0);

    /// `size` scaled to the nearest multiple of `unit`, and at least one `unit`. The full scale changes
    /// nothing.
    pub fn of(self, size: i64, unit: i64) -> i64 {
        if self == Self::FULL {
            return size;
        }
        let units = (size as f64 / unit as f64 * self.0).round() as i64;
        units.max(1) * unit
    }

    /// The number, where it is not 1.
    pub fn reduced(self) -> Option<f64> {
        (self != Self::FULL).then_some(self.0)
    }
}

impl FromStr for Scale {
    type Err = NotAScale;

    fn from_str(text: &str) -> Result<Self, NotAScale> {
        let scale = text.parse().map_err(|_| NotAScale)?;
        if scale > 0.0 && scale <= 1.0 { Ok(Self(scale)) } else { Err(NotAScale) }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The numbers that a model computes with. What comes before and behind it is fp32 always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Single precision, as in the studies
    #[default]
    Fp32,
    /// 8 bits of exponent and 7 of mantissa: half the memory, and fast where the processor has it
    Bf16,
}

impl Precision {
    /// As reports and hashes name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Bf16 => "bf16",
        }
    }

    /// As libtorch names it.
    #[cfg(feature = "torch")]
    pub fn kind(self) -> tch::Kind {
        match self {
            Self::Fp32 => tch::Kind::Float,
            Self::Bf16 => tch::Kind::BFloat16,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Scale;

    #[rstest]
    #[case("1", 1000, 1, 1000)]
    #[case("1", 29, 8, 29)]
    #[case("0.5", 1024, 64, 512)]
    #[case("0.01", 1024, 64, 64)]
    #[case("0.03", 10_131_227, 1, 303_937)]
    #[case("1e-12", 1024, 8, 8)]
    fn sizes_are_whole_units(
        #[case] scale: &str,
        #[case] size: i64,
        #[case] unit: i64,
        #[case] expected: i64,
    ) {
        assert_eq!(scale.parse::<Scale>().unwrap().of(size, unit), expected);
    }

    #[rstest]
    #[case("0")]
    #[case("-0.5")]
    #[case("1.01")]
    #[case("NaN")]
    #[case("inf")]
    #[case("half")]
    fn other_scales_are_refused(#[case] text: &str) {
        assert!(text.parse::<Scale>().is_err());
    }

    #[test]
    fn only_a_reduced_scale_is_told() {
        assert_eq!("1.0".parse::<Scale>().unwrap().reduced(), None);
        assert_eq!("0.25".parse::<Scale>().unwrap().reduced(), Some(0.25));
    }
}
