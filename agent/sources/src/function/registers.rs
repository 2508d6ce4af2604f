//! Where a call has arguments that are passed in registers.

/// Where a call has arguments that are passed in registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    /// Offsets in `pt_regs`, bytes.
    pub(super) x86_64: &'static [usize],
    /// Number of registers, from x0 on.
    pub(super) arm64: usize,
}

impl Registers {
    /// Offset of an argument, 1 for the first, among the registers that a probe gets.
    pub(super) fn of(self, number: u8) -> Option<u32> {
        let place = usize::from(number.checked_sub(1)?);
        if cfg!(target_arch = "aarch64") {
            return (place < self.arm64).then_some(place as u32 * 8);
        }
        self.x86_64.get(place).map(|offset| *offset as u32)
    }
}
