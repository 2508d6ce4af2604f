//! Properties of this kernel: offsets from its BTF, its syscall numbers, its permissions.
//!
//! Found by reading and trying, never by version. Loading is done elsewhere.

pub mod btf;
pub mod casts;
pub mod formats;
pub mod gpu;
pub mod on_self;
pub mod permission;
pub mod registers;
pub mod syscalls;
pub mod throttle;
