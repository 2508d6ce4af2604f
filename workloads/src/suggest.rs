//! The nearest known name for an unknown word. clap suggests only words that share most of their letters in
//! the same places, which short names such as `glm` seldom do.

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error},
};

/// The name with the fewest typing mistakes from `word`: one for up to five letters, two for more. None if
/// all are farther away.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if word.chars().count() <= 5 { 1 } else { 2 };
    let by_distance = names.into_iter().map(|name| (strsim::osa_distance(word, name), name));
    by_distance.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

/// The same error, with a suggestion if clap has none: `words` are the words that `command` could not parse,
/// the program's name first.
pub fn improve(mut error: Error, command: &Command, words: &[String]) -> Error {
    if let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand)
        && error.get(ContextKind::SuggestedSubcommand).is_none()
    {
        let near = nearest(wrong, parent(command, words, wrong).get_subcommands().map(Command::get_name));
        if let Some(near) = near {
            let near = ContextValue::Strings(vec![near.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, near);
        }
    }
    if let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidValue)
        && error.get(ContextKind::SuggestedValue).is_none()
        && let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue)
        && let Some(near) = nearest(wrong, valid.iter().map(String::as_str))
    {
        let near = ContextValue::String(near.to_owned());
        error.insert(ContextKind::SuggestedValue, near);
    }
    error
}

/// The command whose subcommand `wrong` was meant to be.
fn parent<'a>(command: &'a Command, words: &[String], wrong: &str) -> &'a Command {
    let before = words.iter().skip(1).take_while(|word| *word != wrong);
    before.fold(command, |parent, word| parent.find_subcommand(word).unwrap_or(parent))
}

/// The suggestion in an error, by clap or by this module.
pub fn suggested(error: &Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue, ContextKind::SuggestedArg];
    kinds.into_iter().filter_map(|kind| error.get(kind)).find_map(|value| {
        if let ContextValue::Strings(names) = value {
            return names.first().cloned();
        }
        let ContextValue::String(name) = value else { return None };
        Some(name.clone())
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::nearest;

    #[rstest]
    #[case::two_letters_swapped("gml", Some("glm"))]
    #[case::one_missing("pars", Some("parse"))]
    #[case::two_slips_in_a_long_word("genrat", Some("generate"))]
    #[case::nothing_like_it("xyz", None)]
    #[case::two_slips_in_a_short_word("gxx", None)]
    fn the_nearest_name_is_found(#[case] word: &str, #[case] expected: Option<&str>) {
        assert_eq!(nearest(word, ["generate", "parse", "glm", "mlp"]), expected);
    }
}
