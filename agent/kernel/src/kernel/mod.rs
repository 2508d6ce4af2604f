//! What this kernel is like: offsets from its BTF, the numbers of its syscalls, what it allows.
//!
//! Found by looking and trying, never by version. It loads no program.

pub mod btf;
pub mod casts;
pub mod formats;
pub mod gpu;
pub mod on_self;
pub mod permission;
pub mod registers;
pub mod syscalls;
pub mod throttle;
