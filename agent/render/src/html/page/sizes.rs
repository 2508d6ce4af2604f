//! Titles and a note for charts whose platforms differ so much in size that they need several axes.

use crate::terminal::units::{duration, mean_duration};

use super::super::report::{Report, View};

/// Most platforms listed by name.
const MOST_NAMES: usize = 3;

/// Title above the charts of an axis.
pub(super) fn title(report: &Report, places: &[usize]) -> String {
    let of = |place: &usize| -> &View { &report.views[*place] };
    let sizes = || places.iter().map(|place| of(place).breakdown.mean_ns.value);
    let [least, most] =
        [sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max)].map(mean_duration);
    let takes = if least == most { least } else { format!("{least} to {most}") };
    let names = if places.len() <= MOST_NAMES {
        places.iter().map(|place| of(place).breakdown.label.as_str()).collect::<Vec<_>>().join(", ")
    } else {
        format!("{} platforms", places.len())
    };
    let emulated = match places.iter().filter(|place| report.is_emulated(**place)).count() {
        0 => String::new(),
        all if all == places.len() => ", emulated".to_owned(),
        some => format!(", {some} of them emulated"),
    };
    format!("A mean request takes {takes}: {names}{emulated}")
}

/// Sentence on why there are several axes, given where they end, ns; none for a single axis.
pub(super) fn sentence(ends_ns: &[f64]) -> Option<String> {
    const WORDS: [&str; 5] = ["second", "third", "fourth", "fifth", "sixth"];
    let (first, others) = ends_ns.split_first()?;
    let times = |(index, end): (usize, &f64)| {
        let which =
            WORDS.get(index).map_or_else(|| format!("number {}", index + 2), |word| (*word).to_owned());
        let factor = end / first;
        let digits = usize::from(factor < 10.0);
        format!("{factor:.digits$} times as much time on the {which}")
    };
    let factors: Vec<String> = others.iter().enumerate().map(times).collect();
    (!factors.is_empty()).then(|| {
        format!(
            "Platforms differ so much that on one axis the shortest would hardly be seen. There are {} axes, and they differ: the \
             same length is {} as on the first, which ends at {}.",
            ends_ns.len(),
            factors.join(", "),
            duration(*first as u64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn readers_are_told_how_axes_differ() {
        assert_eq!(sentence(&[40e6]), None);
        assert_eq!(sentence(&[]), None);
        let said = sentence(&[40e6, 3_600e6]).unwrap();
        assert!(
            said.ends_with(
                "There are 2 axes, and they differ: the same length is 90 times as much time on the second as on the first, \
                 which ends at 40.0 ms."
            ),
            "{said}"
        );
        let said = sentence(&[10.0, 35.0, 1000.0]).unwrap();
        assert!(
            said.contains(
                "is 3.5 times as much time on the second, 100 times as much time on the third as on"
            ),
            "{said}"
        );
    }
}
