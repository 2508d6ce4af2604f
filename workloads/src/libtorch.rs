//! What every model needs of libtorch: its threads set, and its C++ exceptions turned into errors of one
//! sentence. It computes nothing.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::{Once, OnceLock},
};

use tch::{Cuda, Device, TchError, Tensor};

use crate::{
    cuda::Driver,
    error::{Error, Smaller},
    memory,
    platform::{self, InputMemory, TorchOptions},
};

static PLACE: OnceLock<Place> = OnceLock::new();

/// Where models and batches are.
#[derive(Clone, Copy, Debug)]
struct Place {
    device: Device,
    /// Whether inputs wait in page-locked memory for a graphics processor.
    is_pinned: bool,
}

/// Sets libtorch's threads between operators for the whole process, once: libtorch ignores later calls.
pub fn set_interop_threads(threads: u32) {
    static INTEROP: Once = Once::new();
    INTEROP.call_once(|| tch::set_num_interop_threads(i32::try_from(threads).unwrap_or(i32::MAX)));
}

/// Places models and batches on a device from now on, as `asked`. Only the first call counts, before there
/// are any.
pub fn set_device(asked: &TorchOptions) -> Result<(), Error> {
    let device = match asked.device.unwrap_or_default() {
        platform::Device::Cpu => Device::Cpu,
        platform::Device::Auto => Device::cuda_if_available(),
        platform::Device::Cuda(number) => found(number, has_cuda(), Cuda::device_count())?,
    };
    let mut is_pinned = false;
    if let Device::Cuda(number) = device {
        is_pinned = asked.input_memory == Some(InputMemory::Pinned);
        if asked.blocking_sync {
            // libtorch takes the process's context as it finds it, and there is none yet.
            Driver::load()?.sleep_in_waits(number)?;
        }
    }
    PLACE.get_or_init(|| Place { device, is_pinned });
    Ok(())
}

/// Whether this libtorch was built for CUDA and its part for it is loaded, whatever GPUs there are.
fn has_cuda() -> bool {
    tch::utils::has_cudart()
}

/// The graphics processor of that number, of `count`.
fn found(number: usize, has_cuda: bool, count: i64) -> Result<Device, Error> {
    let asked = platform::Device::Cuda(number).to_string();
    match i64::try_from(number) {
        _ if !has_cuda => Err(Error::NoCuda { asked }),
        Ok(place) if place < count => Ok(Device::Cuda(number)),
        _ => Err(Error::NoDevice { asked, count }),
    }
}

/// Device of models and batches.
pub fn device() -> Device {
    PLACE.get().map_or(Device::Cpu, |place| place.device)
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

/// An input as it waits to be copied to the models' device: the same tensor, or a page-locked copy of it if
/// that was asked for, as PyTorch's data loaders make with `pin_memory`.
pub fn staged(tensor: Tensor) -> Result<Tensor, Error> {
    match PLACE.get() {
        // Not `pin_memory`: tch gives that a device, and libtorch warns each time that nobody should.
        Some(Place { device, is_pinned: true }) => Ok(tensor.f_internal_pin_memory(*device)?),
        _ => Ok(tensor),
    }
}

/// A tensor on the models' device: the same one on a CPU, else the copy, which is over with [`finish`] if it
/// waits in page-locked memory.
pub fn send(tensor: &Tensor) -> Result<Tensor, TchError> {
    match PLACE.get() {
        Some(Place { device, is_pinned }) if *device != Device::Cpu => {
            tensor.f_to_device_(*device, tensor.kind(), *is_pinned, false)
        }
        _ => Ok(tensor.shallow_clone()),
    }
}

/// What `copies` sends to the models' device, once all of it is there: in one phase `h2d`, unless that is a
/// CPU.
pub fn upload<T>(copies: impl FnOnce() -> Result<T, TchError>) -> Result<T, Error> {
    let _phase = copying("h2d");
    let sent = copies()?;
    finish();
    Ok(sent)
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

    use tch::Device;

    use super::{catch, found, sentence};

    #[rstest]
    #[case("not enough memory\nframe #0: c10", "not enough memory")]
    #[case("called `Result::unwrap()` on an `Err` value: Torch(\"not enough\\nframe #0\")", "not enough")]
    #[case("called `Result::unwrap()` on an `Err` value: Torch(\"not enough\")", "not enough")]
    #[case("", "")]
    fn keeps_one_sentence(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(sentence(text), expected);
    }

    #[rstest]
    #[case(0, true, 1, Ok(Device::Cuda(0)))]
    #[case(7, true, 8, Ok(Device::Cuda(7)))]
    #[case(1, true, 1, Err("no such device here: cuda:1 (libtorch sees 1 graphics processors)"))]
    #[case(0, true, 0, Err("no such device here: cuda:0 (libtorch sees 0 graphics processors)"))]
    #[case(4711, true, 2, Err("no such device here: cuda:4711 (libtorch sees 2 graphics processors)"))]
    #[case(0, false, 0, Err("this build's libtorch has no CUDA: cuda:0"))]
    fn a_graphics_processor_is_there_or_why_not(
        #[case] number: usize,
        #[case] has_cuda: bool,
        #[case] count: i64,
        #[case] expected: Result<Device, &str>,
    ) {
        let found = found(number, has_cuda, count).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn passes_results_on_and_catches_panics() {
        assert_eq!(catch(|| 7).unwrap(), 7);
        let error = catch(|| tch::Tensor::from_slice(&[1.0, 2.0]).view([3])).unwrap_err();
        assert!(error.to_string().starts_with("libtorch failed: shape '[3]' is invalid"), "{error}");
    }
}
