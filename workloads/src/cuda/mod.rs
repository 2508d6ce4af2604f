//! NVIDIA's driver, called by itself: what libtorch has no option for, and faults on a GPU without libtorch.
//! Yields a card with a stream and a kernel that runs for a known time. Its library is loaded when it is
//! first asked for, so that nothing here needs a GPU to be built or started.

mod card;
mod driver;
mod error;

pub use self::{
    card::{Card, Extent, Waits},
    driver::Driver,
    error::{Code, CudaError},
};
