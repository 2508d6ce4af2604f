//! What can go wrong with NVIDIA's driver, with the message for people and the hint at what to do next.

use std::{ffi::c_int, fmt};

/// Numbers of CUDA's driver API that have hints of their own.
const OUT_OF_MEMORY: c_int = 2;
const NO_DEVICE: c_int = 100;
const INVALID_DEVICE: c_int = 101;

/// An error of the driver, as it numbers and names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its number; 0 is none.
    pub number: c_int,
    /// Its name, such as `CUDA_ERROR_NO_DEVICE`; none if the driver does not know the number.
    pub name: Option<String>,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "error {}", self.number),
        }
    }
}

/// Why the driver cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    #[error("cannot load NVIDIA's driver: {library} ({reason})")]
    Library { library: &'static str, reason: String },
    #[error("NVIDIA's driver lacks a function: {name}")]
    Function { name: &'static str },
    #[error("NVIDIA's driver refused a call: {call} ({code})")]
    Refused { call: &'static str, code: Code },
}

impl CudaError {
    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Library { .. } => {
                "install NVIDIA's driver, or give its library to this container; a static build loads none"
            }
            Self::Function { .. } => "a driver of CUDA 11 or newer is needed",
            Self::Refused { code, .. } => match code.number {
                NO_DEVICE | INVALID_DEVICE => {
                    "see whether `nvidia-smi` lists a GPU here, and what CUDA_VISIBLE_DEVICES says"
                }
                OUT_OF_MEMORY => "see by `nvidia-smi` which programs have the GPU's memory",
                _ => "see what `nvidia-smi` and the kernel's log say of the GPU",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Code, CudaError};

    #[rstest]
    #[case(100, Some("CUDA_ERROR_NO_DEVICE"), "cuInit (CUDA_ERROR_NO_DEVICE)", "`nvidia-smi` lists a GPU")]
    #[case(2, Some("CUDA_ERROR_OUT_OF_MEMORY"), "cuInit (CUDA_ERROR_OUT_OF_MEMORY)", "the GPU's memory")]
    #[case(4711, None, "cuInit (error 4711)", "the kernel's log")]
    fn an_error_has_its_name_and_a_hint(
        #[case] number: i32,
        #[case] name: Option<&str>,
        #[case] value: &str,
        #[case] hint: &str,
    ) {
        let code = Code { number, name: name.map(str::to_owned) };
        let error = CudaError::Refused { call: "cuInit", code };
        assert_eq!(error.to_string(), format!("NVIDIA's driver refused a call: {value}"));
        assert!(error.hint().contains(hint), "{}", error.hint());
    }
}
