//! Offsets of the fields of classic tracepoints, as tracefs describes them: for kernels without BTF.
//!
//! Yields offsets by event and field. Nothing is mounted: an observer must not change the system for others.

use std::{
    fs,
    path::{Path, PathBuf},
};

use guestscope_contract::fields::EventField;

use crate::untrusted::Shown as _;

/// Mount points of tracefs; the kernel mounts the second one at the first access.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Why formats cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// No tracefs is mounted.
    #[error("the formats of tracepoints cannot be read: no tracefs at {}", PLACES.join(" or "))]
    NoTracefs,
    /// The event is missing, or not readable by this process.
    #[error("reading a tracepoint's format: `{}`: {source}", path.shown())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A field that programs read is missing, or of another size.
    #[error("this kernel's tracepoint has no such field of {bytes} bytes: {event}: {field}")]
    NoField {
        /// `category/name`.
        event: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Size of the field.
        bytes: u32,
    },
}

/// The formats of one kernel.
pub struct Formats(PathBuf);

impl Formats {
    /// The formats of the running kernel.
    pub fn here() -> Result<Self, FormatError> {
        let is_mounted = |place: &&&str| Path::new(place).join("events").is_dir();
        let place = PLACES.iter().find(is_mounted).ok_or(FormatError::NoTracefs)?;
        Ok(Self(PathBuf::from(place)))
    }

    /// Bytes from the start of an event to one of its fields.
    pub fn offset(&self, field: &EventField) -> Result<u32, FormatError> {
        let path = self.0.join("events").join(field.event).join("format");
        let format =
            fs::read_to_string(&path).map_err(|source| FormatError::Read { path: path.clone(), source })?;
        offset(&format, field.name, field.bytes).ok_or(FormatError::NoField {
            event: field.event,
            field: field.name,
            bytes: field.bytes,
        })
    }
}

/// Offset by lines such as `field:pid_t prev_pid; offset:24; size:4; signed:1;`, an array's length after its
/// name.
fn offset(format: &str, name: &str, bytes: u32) -> Option<u32> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().split(';').map(str::trim);
        let declared = parts.next()?.strip_prefix("field:")?.rsplit([' ', '*']).next()?;
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<u32>().ok();
        let (offset, size) = (number("offset:")?, number("size:")?);
        (declared == name && size == bytes).then_some(offset)
    })
}

#[cfg(test)]
mod tests {
    use guestscope_contract::fields::EVENT_FIELDS;
    use rstest::rstest;

    use super::*;

    const SWITCH: &str = "\
name: sched_switch
ID: 372
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:void *pointer;\toffset:40;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] filename;\toffset:48;\tsize:4;\tsigned:0;
\tfield:damaged

print fmt: \"prev_comm=%s prev_pid=%d\", REC->prev_comm, REC->prev_pid
";

    #[rstest]
    #[case("prev_pid", 4, Some(24))]
    #[case("prev_state", 8, Some(32))]
    #[case("pointer", 8, Some(40))]
    #[case("filename", 4, Some(48))]
    // Another size, another name, and a name that is only the end of one.
    #[case("prev_state", 4, None)]
    #[case("next_pid", 4, None)]
    #[case("pid", 4, None)]
    fn a_field_is_found_by_its_whole_name_and_size(
        #[case] name: &str,
        #[case] bytes: u32,
        #[case] expected: Option<u32>,
    ) {
        assert_eq!(offset(SWITCH, name, bytes), expected);
    }

    #[test]
    fn what_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let formats = Formats(folder.path().to_owned());
        let field = EVENT_FIELDS[0];
        assert!(matches!(formats.offset(&field), Err(FormatError::Read { .. })));
        let event = folder.path().join("events").join(field.event);
        fs::create_dir_all(&event).unwrap();
        fs::write(event.join("format"), SWITCH).unwrap();
        assert_eq!(formats.offset(&field).unwrap(), 24);
        let error = formats.offset(&EventField { name: "next_pid", ..field }).unwrap_err();
        let said = "this kernel's tracepoint has no such field of 4 bytes: sched/sched_switch: next_pid";
        assert_eq!(error.to_string(), said);
    }
}
