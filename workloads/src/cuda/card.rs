//! One GPU with this process's context, a stream, some memory, and a kernel that runs for a known time.
//! Yields work on the GPU and waits for it. It belongs to the thread that opened it.

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
};

use super::{driver::Driver, error::CudaError};

/// The kernel, which the driver compiles for the card when it is loaded; with the zero at its end.
const PTX: &str = concat!(include_str!("spin.ptx"), "\0");
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
const MULTIPROCESSORS: c_int = 16;
/// `CU_STREAM_NON_BLOCKING`: it waits for no other stream.
const NON_BLOCKING: c_uint = 1;
/// Threads of a block, and blocks of a multiprocessor, that leave no room for other kernels: no card has room
/// for more than 2,048 threads on a multiprocessor.
const MOST_THREADS: c_uint = 1024;
const MOST_BLOCKS: c_uint = 2;

/// How a thread waits for the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// As CUDA does by itself: on the CPU, asking again and again.
    Spinning,
    /// Asleep, until a thread of the driver wakes it.
    Asleep,
}

/// How much of the card a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One thread.
    Thread,
    /// As many threads as fit, so that no other kernel has room beside it.
    Whole,
}

impl Extent {
    /// Blocks, and threads of each, on a card with so many multiprocessors.
    fn grid(self, multiprocessors: c_uint) -> (c_uint, c_uint) {
        match self {
            Self::Thread => (1, 1),
            Self::Whole => (multiprocessors.max(1).saturating_mul(MOST_BLOCKS), MOST_THREADS),
        }
    }
}

/// The first GPU that this process may use. Everything is freed when it is dropped.
#[derive(Debug)]
pub struct Card {
    driver: Driver,
    device: c_int,
    multiprocessors: c_uint,
    // Null, or 0, where an earlier step failed.
    context: *mut c_void,
    module: *mut c_void,
    kernel: *mut c_void,
    stream: *mut c_void,
    memory: u64,
    /// Length of that memory, bytes.
    reserved: usize,
}

impl Card {
    /// Opens it for the calling thread, before anything else in this process does.
    ///
    /// # Errors
    ///
    /// There is no driver, no GPU, or no room on it.
    pub fn open(waits: Waits) -> Result<Self, CudaError> {
        let driver = Driver::load()?;
        let device = driver.device(0)?;
        if waits == Waits::Asleep {
            driver.sleep_in_waits(0)?;
        }
        let mut card = Self {
            driver,
            device,
            multiprocessors: 0,
            context: ptr::null_mut(),
            module: ptr::null_mut(),
            kernel: ptr::null_mut(),
            stream: ptr::null_mut(),
            memory: 0,
            reserved: 0,
        };
        card.prepare()?;
        Ok(card)
    }

    fn prepare(&mut self) -> Result<(), CudaError> {
        let (driver, functions) = (self.driver, self.driver.functions);
        let mut count = 0;
        // SAFETY: each call has a place for its result, and handles that the ones before it gave. The text of
        // the module and the name of the kernel end with a zero.
        unsafe {
            let code = (functions.attribute)(&raw mut count, MULTIPROCESSORS, self.device);
            driver.check("cuDeviceGetAttribute", code)?;
            let code = (functions.retain)(&raw mut self.context, self.device);
            driver.check("cuDevicePrimaryCtxRetain", code)?;
            driver.check("cuCtxSetCurrent", (functions.set_current)(self.context))?;
            let code = (functions.load_module)(&raw mut self.module, PTX.as_ptr().cast());
            driver.check("cuModuleLoadData", code)?;
            let code = (functions.function)(&raw mut self.kernel, self.module, c"guestscope_spin".as_ptr());
            driver.check("cuModuleGetFunction", code)?;
            let code = (functions.create_stream)(&raw mut self.stream, NON_BLOCKING);
            driver.check("cuStreamCreate", code)?;
        }
        self.multiprocessors = c_uint::try_from(count).unwrap_or(1);
        Ok(())
    }

    /// Has the card compute for so long, once all work before it is done, and returns.
    ///
    /// # Errors
    ///
    /// The driver refuses it, or earlier work has failed.
    pub fn launch(&self, ns: u64, extent: Extent) -> Result<(), CudaError> {
        let (blocks, threads) = extent.grid(self.multiprocessors);
        let mut ns = ns;
        let mut parameters = [(&raw mut ns).cast::<c_void>()];
        let (kernel, stream) = (self.kernel, self.stream);
        // SAFETY: the kernel has one parameter of 8 bytes, which the driver copies before it returns.
        let code = unsafe {
            (self.driver.functions.launch)(
                kernel,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream,
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.driver.check("cuLaunchKernel", code)
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    ///
    /// Work has failed.
    pub fn wait(&self) -> Result<(), CudaError> {
        // SAFETY: the stream exists as long as this does.
        self.driver.check("cuStreamSynchronize", unsafe { (self.driver.functions.synchronize)(self.stream) })
    }

    /// Takes so many bytes of the card's memory, in place of those that it had.
    ///
    /// # Errors
    ///
    /// There are not as many.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), CudaError> {
        self.give_back();
        // SAFETY: a place for the result.
        let code = unsafe { (self.driver.functions.allocate)(&raw mut self.memory, bytes) };
        self.driver.check("cuMemAlloc", code)?;
        self.reserved = bytes;
        Ok(())
    }

    /// Copies memory of the program, as it was allocated, to the memory of the card, as much as has room
    /// there. Gives the bytes that were copied or are on their way: what is not page-locked has been read.
    ///
    /// # Errors
    ///
    /// The driver refuses it, or earlier work has failed.
    pub fn copy_in(&self, from: &[u8]) -> Result<usize, CudaError> {
        let bytes = from.len().min(self.reserved);
        let (memory, stream) = (self.memory, self.stream);
        // SAFETY: both memories have that many bytes. The driver has read the program's when it returns: that
        // is not page-locked, as the function's documentation has it.
        let code = unsafe { (self.driver.functions.copy_in)(memory, from.as_ptr().cast(), bytes, stream) };
        self.driver.check("cuMemcpyHtoDAsync", code)?;
        Ok(bytes)
    }

    fn give_back(&mut self) {
        if self.memory != 0 {
            // SAFETY: nobody else has it, and the driver waits for work that uses it.
            let _ = unsafe { (self.driver.functions.free)(self.memory) };
            (self.memory, self.reserved) = (0, 0);
        }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        self.give_back();
        let functions = self.driver.functions;
        // SAFETY: each was made above and is used by nobody else. What the driver refuses now is freed with
        // the process.
        unsafe {
            if !self.stream.is_null() {
                let _ = (functions.destroy_stream)(self.stream);
            }
            if !self.module.is_null() {
                let _ = (functions.unload_module)(self.module);
            }
            if !self.context.is_null() {
                let _ = (functions.release)(self.device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, PTX};

    #[test]
    fn a_kernel_takes_a_thread_or_all() {
        assert_eq!(Extent::Thread.grid(132), (1, 1));
        assert_eq!(Extent::Whole.grid(132), (264, 1024));
        assert_eq!(Extent::Whole.grid(0), (2, 1024));
    }

    /// The driver reads it until the zero, and looks for the kernel by its name.
    #[test]
    fn the_kernel_is_text_that_ends() {
        assert_eq!(PTX.find('\0'), Some(PTX.len() - 1));
        assert!(PTX.is_ascii() && PTX.starts_with(".version 6.0\n.target sm_60\n"));
        assert!(PTX.contains(".visible .entry guestscope_spin(\n"));
    }
}
