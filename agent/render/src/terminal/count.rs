//! Progress on stderr while files are read: a bar if the amount is known, else a rising number.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::style::can_redraw;

/// The count.
#[derive(Debug)]
pub struct Count(Option<ProgressBar>);

impl Count {
    /// Begins a count up to `of`; draws only on a terminal, and if wanted.
    pub fn start(what: &str, of: usize, is_wanted: bool) -> Self {
        let bar = || ProgressBar::new(of as u64);
        Self::draw(bar, "  {pos}/{len} {msg}  [{bar:40}]  {elapsed}", what, is_wanted)
    }

    /// Begins a count without a known end; draws only where a bar would be drawn.
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

    /// Sets the number done.
    pub fn update(&self, done: usize) {
        if let Some(bar) = &self.0 {
            bar.set_position(done as u64);
        }
    }

    /// Removes the count.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
