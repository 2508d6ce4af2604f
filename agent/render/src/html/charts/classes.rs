//! The classes of all inks and lines, for the page's head.

use std::fmt::Write as _;

use super::{ink::look, lines};
use crate::analyze::Cause;

/// The classes of all inks, for the page's head.
pub(in crate::html) fn classes() -> String {
    let mut classes = String::from(".hatch{stroke:#fff;stroke-opacity:.75;stroke-width:2.5;fill:none}");
    for (index, cause) in Cause::all().enumerate() {
        let _ = write!(classes, ".fill-cause{index}{{fill:{}}}", look(cause).0);
    }
    lines::classes(&mut classes);
    classes
}
