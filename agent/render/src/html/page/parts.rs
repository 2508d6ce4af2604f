//! Parts of the page that several sections have.

use maud::{Markup, html};

use super::super::charts;
use crate::{
    analyze::Cause,
    untrusted::{self, Untrusted},
};

/// Legend of the colours and hatches in a section.
pub(super) fn legend(is_used: impl Fn(Cause) -> bool) -> Markup {
    html! { p class="legend" { @for cause in Cause::all().filter(|cause| is_used(*cause)) { span { (charts::swatch(cause)) (cause.name()) } } } }
}

/// Names of phases from the request down.
pub(super) fn path(path: &[Untrusted]) -> Untrusted {
    untrusted::join(path, " > ")
}
