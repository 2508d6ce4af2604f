//! How the stub misbehaves: the value of the environment variable `GUESTSCOPE_NVML_STUB`.
//!
//! Yields [`Behaviour`], read once. Readings are counted over all devices, from 1:
//!
//! | value           | effect                                                                             |
//! |-----------------|------------------------------------------------------------------------------------|
//! | unset           | works                                                                              |
//! | `hang-init`     | initialisation never returns                                                       |
//! | `hang-after:N`  | reading N never returns                                                            |
//! | `crash-init`    | initialisation aborts the process                                                  |
//! | `crash-after:N` | reading N aborts the process                                                       |
//! | `lost-after:N`  | device 1 is lost from reading N on                                                 |
//! | `xid-after:N`   | device 0 has error 79 at its reading N                                             |
//! | `no-devices`    | there is none; initialisation without the flag for that fails                      |
//! | `unsupported`   | no question about a device is supported                                            |
//! | `no-driver`     | initialisation says that the driver is not loaded                                  |
//! | `idle`          | works, no device is ever busy; other children of its parent use 1 %                |
//! | `shared`        | works; process 1 uses 60 % of each device, each other child of its parent 30 %;    |
//! |                 | it holds 900 MiB of each device's memory, and each of these 100 MiB                |
//! | `held`          | works; the power cap halves the clocks; other children of its parent use 30 %      |
//! | `old-driver`    | as a driver before 510, the second version of the question for memory does not exist |
//!
//! Any other value aborts the process with a message, so that a typing error in a test cannot pass.

use std::{env, process, sync::OnceLock, thread, time::Duration};

use crate::values::DEVICES;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Works,
    HangInit,
    HangAfter(u64),
    CrashInit,
    CrashAfter(u64),
    LostAfter(u64),
    XidAfter(u64),
    NoDevices,
    Unsupported,
    NoDriver,
    OldDriver,
    Idle,
    Shared,
    Held,
}

/// The behaviour that the environment chose.
pub(crate) fn chosen() -> Behaviour {
    static CHOSEN: OnceLock<Behaviour> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let Some(word) = env::var_os("GUESTSCOPE_NVML_STUB") else { return Behaviour::Works };
        word.to_str().and_then(named).unwrap_or_else(|| {
            eprintln!("GUESTSCOPE_NVML_STUB: unknown value: {}", word.display());
            process::abort()
        })
    })
}

fn named(word: &str) -> Option<Behaviour> {
    let (name, count) = match word.split_once(':') {
        Some((name, count)) => (name, Some(count.parse::<u64>().ok()?)),
        None => (word, None),
    };
    Some(match (name, count) {
        ("hang-init", None) => Behaviour::HangInit,
        ("hang-after", Some(count)) => Behaviour::HangAfter(count),
        ("crash-init", None) => Behaviour::CrashInit,
        ("crash-after", Some(count)) => Behaviour::CrashAfter(count),
        ("lost-after", Some(count)) => Behaviour::LostAfter(count),
        ("xid-after", Some(count)) => Behaviour::XidAfter(count),
        ("no-devices", None) => Behaviour::NoDevices,
        ("unsupported", None) => Behaviour::Unsupported,
        ("no-driver", None) => Behaviour::NoDriver,
        ("old-driver", None) => Behaviour::OldDriver,
        ("idle", None) => Behaviour::Idle,
        ("shared", None) => Behaviour::Shared,
        ("held", None) => Behaviour::Held,
        _ => return None,
    })
}

/// Number of devices.
pub(crate) fn devices() -> u32 {
    if chosen() == Behaviour::NoDevices { 0 } else { u32::try_from(DEVICES.len()).unwrap_or_default() }
}

/// Never returns, as a call does that waits in the kernel for a device.
pub(crate) fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_hours(1));
    }
}

/// Takes the process down, as a fault inside the driver's library does.
pub(crate) fn crash() -> ! {
    process::abort()
}
