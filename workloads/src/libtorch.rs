//! What every model needs of libtorch: its threads set, and its C++ exceptions turned into errors of one
//! sentence. It computes nothing.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::{Once, OnceLock},
};

use tch::{Cuda, Device, Tensor};

use crate::{
    error::{Error, Smaller},
    memory, platform,
};

static DEVICE: OnceLock<Device> = OnceLock::new();

/// Sets libtorch's threads between operators for the whole process, once: libtorch ignores later calls.
pub fn set_interop_threads(threads: u32) {
    static INTEROP: Once = Once::new();
    INTEROP.call_once(|| tch::set_num_interop_threads(i32::try_from(threads).unwrap_or(i32::MAX)));
}

/// Places models and batches on a device from now on. Only the first call counts, before there are any.
pub fn set_device(asked: platform::Device) -> Result<(), Error> {
    let device = match asked {
        platform::Device::Cpu => Device::Cpu,
        platform::Device::Auto => Device::cuda_if_available(),
        platform::Device::Cuda(number) => {
            let count = Cuda::device_count();
            if i64::try_from(number).map_or(true, |number| number >= count) {
                return Err(Error::NoDevice { asked: asked.to_string(), count });
            }
            Device::Cuda(number)
        }
    };
    DEVICE.get_or_init(|| device);
    Ok(())
}

/// Device of models and batches.
pub fn device() -> Device {
    DEVICE.get().copied().unwrap_or(Device::Cpu)
}

/// Waits for the device, so that a phase contains the work that it started; nothing on a CPU.
pub fn finish() {
    if let Device::Cuda(number) = device() {
        Cuda::synchronize(number as i64);
    }
}

/// A phase `h2d` or `d2h`, as long as the guard is kept; none on a CPU, where nothing is copied.
pub fn copying(name: &str) -> Option<guestscope_marker::Guard> {
    (device() != Device::Cpu).then(|| guestscope_marker::phase(name))
}

/// A tensor on the models' device: the same one on a CPU, else copied in a phase `h2d`.
pub fn upload(tensor: &Tensor) -> Result<Tensor, Error> {
    if device() == Device::Cpu {
        return Ok(tensor.shallow_clone());
    }
    let _phase = copying("h2d");
    let copy = tensor.f_to_device(device())?;
    finish();
    Ok(copy)
}

/// A tensor that the CPU can read: the same one on a CPU, else copied in a phase `d2h`.
pub fn download(tensor: Tensor) -> Result<Tensor, Error> {
    if device() == Device::Cpu {
        return Ok(tensor);
    }
    // Pending computation does not count as copying.
    finish();
    let _phase = copying("d2h");
    Ok(tensor.f_to_device(Device::Cpu)?)
}

/// Whether there is room for `numbers` model values in fp32, in which all are made. What libtorch refuses
/// later is more likely a batch, and its error says so. A GPU reports its own shortage.
pub fn room_for(model: &'static str, numbers: u64, smaller: Smaller) -> Result<(), Error> {
    if device() != Device::Cpu {
        return Ok(());
    }
    memory::check(numbers.saturating_mul(size_of::<f32>() as u64)).map_err(|room| Error::ModelTooLarge {
        model,
        room,
        smaller,
    })
}

/// Sets libtorch's threads inside an operator for the whole process; between operators it has one, unless
/// set.
pub fn set_threads(threads: u32) {
    set_interop_threads(1);
    tch::set_num_threads(i32::try_from(threads).unwrap_or(i32::MAX));
}

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, whose tch calls panic if libtorch throws (tch's layers have no other way), for example
/// without memory. Nothing of the panic is printed. `work` must not leave anything half-changed that is used
/// afterwards.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                usual(info);
            }
        }));
    });
    CAUGHT.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(false);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map_or("it panicked", String::as_str);
        Error::Torch { reason: sentence(text).to_owned() }
    })
}

/// The first sentence of libtorch's message, without `unwrap`'s words and the C++ stack, which follows a line
/// break printed by `unwrap` as `\n`.
pub fn sentence(text: &str) -> &str {
    let message = text.split_once("Torch(\"").map_or(text, |(_, message)| message);
    let line = message.split('\n').next().unwrap_or_default();
    line.split("\\n").next().unwrap_or_default().trim_end_matches("\")")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{catch, sentence};

    #[rstest]
    #[case("not enough memory\nframe #0: c10", "not enough memory")]
    #[case("called `Result::unwrap()` on an `Err` value: Torch(\"not enough\\nframe #0\")", "not enough")]
    #[case("called `Result::unwrap()` on an `Err` value: Torch(\"not enough\")", "not enough")]
    #[case("", "")]
    fn keeps_one_sentence(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(sentence(text), expected);
    }

    #[test]
    fn passes_results_on_and_catches_panics() {
        assert_eq!(catch(|| 7).unwrap(), 7);
        let error = catch(|| tch::Tensor::from_slice(&[1.0, 2.0]).view([3])).unwrap_err();
        assert!(error.to_string().starts_with("libtorch failed: shape '[3]' is invalid"), "{error}");
    }
}
