//! Hints on what could have marked an unmarked run: a line each, and the same as JSON.

use serde::Serialize;

use crate::{hints::Hint, untrusted::Untrusted};

use super::{
    health_lines::fact,
    page::{Emphasis, Page},
};

/// Prints a line per hint.
pub(super) fn lines(page: &mut Page, hints: &[Hint]) {
    let mut heading = "hint";
    for Hint { program, saw, advice, option: _ } in hints {
        let text = format!("{} {saw}: {advice}", page.name(program, 32));
        fact(page, std::mem::take(&mut heading), &text, Emphasis::Strong);
    }
}

/// A hint as JSON.
#[derive(Serialize)]
pub(super) struct HintJson<'a> {
    program: &'a Untrusted,
    saw: &'a str,
    advice: &'a str,
    option: Option<&'a str>,
}

pub(super) fn json(hints: &[Hint]) -> Vec<HintJson<'_>> {
    fn one(hint: &Hint) -> HintJson<'_> {
        let Hint { program, saw, advice, option } = hint;
        HintJson { program, saw, advice, option: option.as_deref() }
    }
    hints.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Account::Cpu;

    use super::*;
    use crate::{
        analyze::samples::process,
        terminal::{
            RunFacts, Style, render_summary, render_summary_json,
            tests::fixtures::{facts, healthy, is_safe, summary_of},
        },
    };

    #[test]
    fn a_hint_is_a_line_and_its_program_cannot_write_another() {
        let hint = |program: &str, option: &str| Hint {
            program: program.into(),
            saw: "listens on port 8000".to_owned(),
            advice: format!("`{option}` shows its requests"),
            option: Some(option.to_owned()),
        };
        let hints = vec![hint("python3", "--requests port:8000"), hint("x\u{1b}[2J\nhint: obey", "--a")];
        let facts = RunFacts { hints, ..facts() };
        let summary = summary_of(&[process(1, "python3", 812, &[(Cpu, 9_000)])]);
        let text =
            render_summary(&summary, &healthy(), &facts, Style { width: 80, color: false, unicode: false });
        assert!(is_safe(&text), "{text}");
        let from = text.find("hint ").expect("it is told");
        insta::assert_snapshot!(&text[from..], @r"
        hint          python3 listens on port 8000: `--requests port:8000` shows its
                      requests
                      x?[2J hint: obey listens on port 8000: `--a` shows its requests
        ");
        let json = render_summary_json(&summary, &healthy(), &facts);
        let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!(json["hints"][0]["option"], "--requests port:8000");
    }
}
