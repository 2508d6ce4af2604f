//! `spin-openmp`: the request ends a parallel region of libgomp and busy-waits for its other thread, which is
//! SIZE late. Charged to `cpu`, as `spin` is; the cause is `cpu.spin`: samples show the library's code.
//!
//! The other thread sleeps; `ns` runs from before the region until that thread comes, by `CLOCK_MONOTONIC` in
//! both. libgomp must be in the process already, as it is with libtorch, and told not to sleep:
//! OMP_WAIT_POLICY=active.

use std::{
    ffi::{CStr, c_int, c_uint, c_void},
    mem,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
    time::Duration,
};

use crate::stall::{Fault, Injected, Kind, Setup, error::StallError, machine::clock, size::Unit};

pub(super) const KIND: Kind = Kind {
    name: "spin-openmp",
    what: "the request busy-waits inside libgomp for a thread that is SIZE late",
    needs: "libtorch, and OMP_WAIT_POLICY=active",
    unit: Unit::Time,
    range: 1_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make,
};

/// The request's own thread and the late one.
const THREADS: c_uint = 2;

type Body = extern "C" fn(*mut c_void);

/// Functions of GCC's libgomp ABI for compiled programs.
struct Openmp {
    parallel: unsafe extern "C" fn(Body, *mut c_void, c_uint, c_uint),
    thread_num: unsafe extern "C" fn() -> c_int,
}

/// Argument of a region.
struct Region {
    thread_num: unsafe extern "C" fn() -> c_int,
    late_ns: u64,
    came_ns: AtomicU64,
}

fn make(_: &Setup) -> Result<Box<dyn Fault>, StallError> {
    if std::env::var_os("OMP_WAIT_POLICY").is_none_or(|policy| !policy.eq_ignore_ascii_case("active")) {
        return Err(StallError::WaitPolicy);
    }
    let mut openmp = Openmp::find().ok_or(StallError::NoOpenmp)?;
    // The first region starts the other thread.
    openmp.inject(0)?;
    Ok(Box::new(openmp))
}

impl Openmp {
    fn find() -> Option<Self> {
        let find = |name: &CStr| {
            // SAFETY: the name lives across the call.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        let (parallel, thread_num) = (find(c"GOMP_parallel")?, find(c"omp_get_thread_num")?);
        // SAFETY: functions of these names have these types, in every library that has them.
        Some(unsafe {
            Self {
                parallel: mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(Body, *mut c_void, c_uint, c_uint),
                >(parallel),
                thread_num: mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(thread_num),
            }
        })
    }
}

/// Body of each thread of the region.
extern "C" fn body(region: *mut c_void) {
    // SAFETY: it is the region of `inject`, which waits for all of its threads.
    let region = unsafe { &*region.cast::<Region>() };
    // SAFETY: it takes nothing.
    if unsafe { (region.thread_num)() } != 0 {
        thread::sleep(Duration::from_nanos(region.late_ns));
        region.came_ns.store(clock::monotonic_ns(), SeqCst);
    }
}

impl Fault for Openmp {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let start_ns = clock::monotonic_ns();
        let region = Region { thread_num: self.thread_num, late_ns: size, came_ns: AtomicU64::new(0) };
        // SAFETY: the region outlives the call, which returns when all threads have done with it.
        unsafe { (self.parallel)(body, (&raw const region).cast_mut().cast(), THREADS, 0) };
        match region.came_ns.load(SeqCst) {
            0 => Err(StallError::PartnerGone { name: "libgomp's".to_owned() }),
            came_ns => Ok(Injected { ns: came_ns.saturating_sub(start_ns), count: None }),
        }
    }
}
