//! Facilities that the kinds of stalls share: clocks, CPUs, threads that serve a fault, cgroups, files that
//! are not cached. It knows no kind and no request.

pub mod clock;
pub mod cold;
pub mod cpus;
pub mod gpu_neighbour;
pub mod group;
pub mod hierarchy;
pub mod interrupt;
pub mod link;
pub mod mapping;
pub mod neighbour;
pub mod partner;
pub mod work;
