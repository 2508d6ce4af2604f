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

macro_rules! sources {
    ($($(#[doc = $help:literal])+ $(#[$default:ident])? $source:ident = $number:literal, $name:literal;)*) => {
        /// Source of the start of a phase.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Source { $($(#[doc = $help])+ $(#[$default])? $source = $number,)* }

        /// Number of sources.
        pub const SOURCES: usize = [$($number),*].len();

        impl Source {
            /// All sources in the order of their numbers.
            pub const ALL: [Source; SOURCES] = [$(Source::$source),*];

            /// The word in columns, attributes and options.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Source::$source => $name,)* }
            }

            /// The source with this number, if there is one.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Source> {
                match number { $($number => Some(Source::$source),)* _ => None }
            }
        }
    };
}

sources! {
    /// The program itself, by the marker library.
    #[default]
    Marker = 0, "marker";
    /// Wrappers around functions of Python packages.
    Python = 1, "python";
    /// Spans of the program's own OpenTelemetry.
    Otel = 2, "otel";
    /// Ranges of NVIDIA's tools extension.
    Nvtx = 3, "nvtx";
    /// Tasks of Intel's instrumentation interface.
    Itt = 4, "itt";
    /// Entry and return of a function.
    Function = 5, "function";
    /// A pair of static probes.
    Usdt = 6, "usdt";
    /// Traffic over an accepted connection.
    Socket = 7, "socket";
}

impl Source {
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
            assert_eq!(Source::ALL[source as usize], source, "in the order of their numbers");
        }
        let detail = Source::Itt.with_length(5) | DETAIL;
        assert_eq!(Source::and_length(detail), (Source::Itt, 5));
        assert!(Source::is_detail(detail) && !Source::is_detail(Source::Itt.with_length(u32::MAX)));
        assert_eq!(Source::and_length(77), (Source::Marker, 77), "an older library says nothing");
        assert_eq!(Source::and_length(0xff << SOURCE_SHIFT | 3), (Source::Marker, 3), "no such source");
    }
}
