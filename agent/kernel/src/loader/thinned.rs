//! The part of the requests that the kernel side hands over, where there are too many to see them all.

use aya::maps::{Array, MapData};
use guestscope_contract::{Counter, Thinning};

use super::{error::LoadError, loaded::Loaded};

/// The part as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct ThinningValue(Thinning);

// SAFETY: a transparent wrapper of two integers of the same size, without padding.
unsafe impl aya::Pod for ThinningValue {}

impl Loaded {
    /// Hands over one of 2 to the power of `halved` requests that begin from now on. It was loaded with
    /// [`LoadOptions::thins`](super::LoadOptions::thins).
    ///
    /// # Errors
    /// The kernel refuses to write the map.
    pub fn thin(&mut self, halved: u32) -> Result<(), LoadError> {
        let thinning = Thinning { halved, is_on: 1 };
        let map = self.ebpf.map_mut("THINNING").ok_or(LoadError::Missing("THINNING"))?;
        let mut map: Array<&mut MapData, ThinningValue> = Array::try_from(map)?;
        Ok(map.set(0, ThinningValue(thinning), 0)?)
    }

    /// Requests so far that began and were not handed over.
    ///
    /// # Errors
    /// The kernel refuses to read the counters.
    pub fn requests_unseen(&self) -> Result<u64, LoadError> {
        Ok(self.counters()?.of(Counter::RequestNotSeen))
    }
}
