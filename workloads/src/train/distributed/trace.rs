//! The W3C `traceparent` header, which continues a worker's step in the server. Yields ids; marks nothing.

/// Name of the HTTP header and of the gRPC metadata key.
pub const KEY: &str = "traceparent";

/// Caller's trace and span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Trace id in the header's byte order.
    pub trace: [u8; 16],
    /// Span id in the header's byte order.
    pub span: [u8; 8],
}

/// Parses a header of version 00, or of a later one with the same start; None otherwise and for zero ids.
pub fn parse(header: &str) -> Option<Parent> {
    let mut parts = header.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_known = version != "ff" && (version != "00" || parts.next().is_none());
    let (_, _) = (bytes::<1>(version)?, bytes::<1>(flags)?);
    let parent = Parent { trace: bytes(trace)?, span: bytes(span)? };
    (is_known && parent.trace != [0; 16] && parent.span != [0; 8]).then_some(parent)
}

fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let is_lower = digits.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit));
    if digits.len() != 2 * N || !is_lower {
        return None;
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Parent, parse};

    #[test]
    fn reads_what_the_marker_writes() {
        let request = guestscope_marker::request("step", 1);
        let header = request.traceparent();
        let Parent { trace, span } = parse(&header).expect("it is a header");
        assert_eq!(header[3..35], format!("{:032x}", u128::from_be_bytes(trace)));
        assert_eq!(header[36..52], format!("{:016x}", u64::from_be_bytes(span)));
    }

    #[rstest]
    #[case::empty("")]
    #[case::no_trace("00-00000000000000000000000000000000-00f067aa0ba902b7-01")]
    #[case::no_span("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01")]
    #[case::short("00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01")]
    #[case::capitals("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01")]
    #[case::no_flags("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7")]
    #[case::more("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what")]
    #[case::version("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    fn refuses_what_is_no_header(#[case] header: &str) {
        assert_eq!(parse(header), None);
    }
}
