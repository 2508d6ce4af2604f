//! Table: the hook of family `driver`, functions of graphics processors' drivers that wait or copy.

use super::hook::{Hook, Place};

/// Loaded only where there is a graphics processor, or a driver's library.
pub const HOOKS: &[Hook] = &[Hook {
    id: "uprobe/driver",
    program: "driver_waits",
    place: Place::Function,
    purpose: "waits for graphics processors, and copies to and from them",
    is_needed: false,
    twin: None,
    classic: None,
}];
