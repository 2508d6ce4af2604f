//! A count on stderr while work is done: a bar where its amount is known, else a number that rises.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::style::can_redraw;

/// The count.
#[derive(Debug)]
pub struct Count(Option<ProgressBar>);

impl Count {
    /// Begins one of so many; on anything but a terminal, or if it is not wanted, nothing is ever drawn.
    pub fn start(what: &str, of: usize, is_wanted: bool) -> Self {
        let bar = || ProgressBar::new(of as u64);
        Self::draw(bar, "  {pos}/{len} {msg}  [{bar:40}]  {elapsed}", what, is_wanted)
    }

    /// Begins one whose end is not known; nothing is drawn where a bar would not be.
    pub fn rising(what: &str, is_wanted: bool) -> Self {
        Self::draw(ProgressBar::new_spinner, "  {pos} {msg}  {elapsed}", what, is_wanted)
    }

    fn draw(bar: impl FnOnce() -> ProgressBar, template: &str, what: &str, is_wanted: bool) -> Self {
        Self((is_wanted && can_redraw()).then(|| {
            let bar = bar().with_message(what.to_owned());
            // A template fails only for an unknown key, and these are known.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("##."));
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        }))
    }

    /// So many are done.
    pub fn update(&self, done: usize) {
        if let Some(bar) = &self.0 {
            bar.set_position(done as u64);
        }
    }

    /// Takes it away.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
