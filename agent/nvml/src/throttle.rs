//! The bits of NVML's throttle reasons (`nvmlClocksEventReasons` in newer headers) as words.
//!
//! Yields [`THROTTLE_REASONS`] and which of them lower the clocks. A bit that NVIDIA adds later has no word
//! here: it stays in the mask and is otherwise ignored.

/// Nothing runs: whatever else lowers the clocks costs nothing.
pub const GPU_IDLE: u64 = 0x1;
const APPLICATIONS_CLOCKS: u64 = 0x2;
const SW_POWER_CAP: u64 = 0x4;
const HW_SLOWDOWN: u64 = 0x8;
const SYNC_BOOST: u64 = 0x10;
const SW_THERMAL: u64 = 0x20;
const HW_THERMAL: u64 = 0x40;
const HW_POWER_BRAKE: u64 = 0x80;
const DISPLAY_CLOCKS: u64 = 0x100;

/// Each bit and its word, lowest bit first.
pub const THROTTLE_REASONS: &[(u64, &str)] = &[
    (GPU_IDLE, "gpu_idle"),
    (APPLICATIONS_CLOCKS, "applications_clocks"),
    (SW_POWER_CAP, "sw_power_cap"),
    (HW_SLOWDOWN, "hw_slowdown"),
    (SYNC_BOOST, "sync_boost"),
    (SW_THERMAL, "sw_thermal"),
    (HW_THERMAL, "hw_thermal"),
    (HW_POWER_BRAKE, "hw_power_brake"),
    (DISPLAY_CLOCKS, "display_clocks"),
];

/// The bits that mean that work ran on lower clocks than the settings give it. The other three are no loss:
/// an idle device lowers its clocks because nothing runs, and application and display clocks are settings.
/// One sample alone is weak evidence of `hw_slowdown`, which the driver may also show for a moment while it
/// changes the performance state.
pub const CLOCKS_HELD: u64 =
    SW_POWER_CAP | HW_SLOWDOWN | SYNC_BOOST | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE;

/// The words of a mask, lowest bit first; bits without a word are left out.
pub fn throttle_words(mask: u64) -> impl Iterator<Item = &'static str> {
    THROTTLE_REASONS.iter().filter(move |(bit, _)| mask & bit != 0).map(|&(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::{CLOCKS_HELD, THROTTLE_REASONS, throttle_words};

    #[test]
    fn each_reason_is_one_bit_and_the_nine_are_the_lowest_nine() {
        for (position, (bit, word)) in THROTTLE_REASONS.iter().enumerate() {
            assert_eq!(*bit, 1 << position, "{word}");
        }
        assert_eq!(THROTTLE_REASONS.len(), 9);
    }

    #[test]
    fn a_mask_gives_its_words_in_order_and_passes_over_unknown_bits() {
        let words = |mask| throttle_words(mask).collect::<Vec<_>>();
        assert_eq!(words(0), [""; 0]);
        assert_eq!(words(1), ["gpu_idle"]);
        assert_eq!(words(0x1 | 0x8 | 0x80 | 1 << 15), ["gpu_idle", "hw_slowdown", "hw_power_brake"]);
        assert_eq!(words(1 << 63), [""; 0]);
        assert_eq!(words(u64::MAX).len(), THROTTLE_REASONS.len());
    }

    #[test]
    fn idleness_and_settings_hold_no_clocks_down() {
        let clocks_held = |mask: u64| mask & CLOCKS_HELD != 0;
        for &(bit, word) in THROTTLE_REASONS {
            let harmless = ["gpu_idle", "applications_clocks", "display_clocks"].contains(&word);
            assert_eq!(clocks_held(bit), !harmless, "{word}");
        }
        assert!(clocks_held(CLOCKS_HELD | 1));
        assert!(!clocks_held(1 << 40));
    }
}
