//! Sources of phases: the part of an edge that says what made it.
//!
//! The number travels beside the length of a name (`SOURCE_SHIFT`), where an older marker library writes 0,
//! which means the marker.

/// Bits of a name's length on the wire; the source's number lies above.
pub const SOURCE_SHIFT: u32 = 32;
/// Flag beside it: the new phase is a detail of the phase around it, and no phase where there is none around.
pub const DETAIL: u64 = 1 << 40;
/// The instance of edges that the kernel side makes by itself; no copy of the marker library has it.
pub const KERNEL_INSTANCE: u16 = 0xffff;
/// Edge number of an unnumbered edge: none can be missed before it.
pub const UNNUMBERED: u32 = 0;

/// Source of the start of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Source {
    /// The program itself, by the marker library.
    #[default]
    Marker = 0,
    /// Wrappers around functions of Python packages.
    Python = 1,
    /// Spans of the program's own OpenTelemetry.
    Otel = 2,
    /// Ranges of NVIDIA's tools extension.
    Nvtx = 3,
    /// Tasks of Intel's instrumentation interface.
    Itt = 4,
    /// Entry and return of a function.
    Function = 5,
    /// A pair of static probes.
    Usdt = 6,
    /// Traffic over an accepted connection.
    Socket = 7,
}

/// Number of sources.
pub const SOURCES: usize = 8;

impl Source {
    /// All sources in the order of their numbers.
    pub const ALL: [Source; SOURCES] = [
        Source::Marker,
        Source::Python,
        Source::Otel,
        Source::Nvtx,
        Source::Itt,
        Source::Function,
        Source::Usdt,
        Source::Socket,
    ];

    /// The word in columns, attributes and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Marker => "marker",
            Source::Python => "python",
            Source::Otel => "otel",
            Source::Nvtx => "nvtx",
            Source::Itt => "itt",
            Source::Function => "function",
            Source::Usdt => "usdt",
            Source::Socket => "socket",
        }
    }

    /// The source with this number, if there is one.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Source> {
        match number {
            0 => Some(Source::Marker),
            1 => Some(Source::Python),
            2 => Some(Source::Otel),
            3 => Some(Source::Nvtx),
            4 => Some(Source::Itt),
            5 => Some(Source::Function),
            6 => Some(Source::Usdt),
            7 => Some(Source::Socket),
            _ => None,
        }
    }

    /// The source with this word.
    #[must_use]
    pub fn by_name(word: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.name() == word)
    }

    /// Splits the second argument of an edge with a name: the source (an unknown number is the marker's), and
    /// the name's length in bytes.
    #[must_use]
    pub const fn and_length(argument: u64) -> (Source, u64) {
        let source = match Source::from_number((argument >> SOURCE_SHIFT) as u8) {
            Some(source) => source,
            None => Source::Marker,
        };
        (source, argument & ((1 << SOURCE_SHIFT) - 1))
    }

    /// Whether the same argument marks the phase as a detail of others (`DETAIL`).
    #[must_use]
    pub const fn is_detail(argument: u64) -> bool {
        argument & DETAIL != 0
    }

    /// The same argument, composed.
    #[must_use]
    pub const fn with_length(self, bytes: u32) -> u64 {
        (self as u64) << SOURCE_SHIFT | bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_and_a_length_come_back() {
        for source in Source::ALL {
            assert_eq!(Source::and_length(source.with_length(u32::MAX)), (source, u64::from(u32::MAX)));
            assert_eq!(Source::from_number(source as u8), Some(source));
        }
        let detail = Source::Itt.with_length(5) | DETAIL;
        assert_eq!(Source::and_length(detail), (Source::Itt, 5));
        assert!(Source::is_detail(detail) && !Source::is_detail(Source::Itt.with_length(u32::MAX)));
        assert_eq!(Source::and_length(77), (Source::Marker, 77), "an older library says nothing");
        assert_eq!(Source::and_length(0xff << SOURCE_SHIFT | 3), (Source::Marker, 3), "no such source");
    }
}
