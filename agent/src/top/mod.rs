//! `guestscope top`: the last ten seconds of a resident agent, live on the terminal.
//!
//! It asks the agent by its control socket once a second, and draws. What the screen says is made by
//! [`terminal::render_top`]; this is the only place that takes over a terminal.

mod arguments;
mod state;

pub use arguments::TopArguments;

use std::{io, time::Duration};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    style::{Color, Modifier, Style as Look},
    text::{Line, Span, Text},
    widgets::Paragraph,
};

use self::state::State;
use crate::{
    ctl::{CtlError, asked},
    out,
    sinks::terminal::{Stream, Style, TopLook, TopPiece, render_top},
    watch::control::{Answer, Question},
};

/// Interval between two screens.
const PACE: Duration = Duration::from_secs(1);
/// What is said of an incident that was asked for: it may be too much like another one, or one too many.
const KEPT: &str = "asked for: `guestscope ctl incidents` lists it, or it is only counted";
/// Size of the screen that is printed where there is no terminal.
const SIZE: (usize, usize) = (80, 24);

/// Shows the screen until it is quit. Returns the exit code.
///
/// # Errors
/// No agent answers, or the terminal cannot be used.
pub fn run(arguments: &TopArguments) -> Result<i32, CtlError> {
    let mut state = State::default();
    look(arguments, &mut state)?;
    let style = Style::detect(Stream::Stdout);
    if !out::is_terminal() {
        let lines = render_top(&state.view(), SIZE.0, SIZE.1, style.unicode);
        let text = |line: Vec<TopPiece>| line.into_iter().map(|(text, _)| text).collect::<String>();
        let lines: Vec<String> = lines.into_iter().map(|line| text(line).trim_end().to_owned()).collect();
        out::answer(&(lines.join("\n").trim_end().to_owned() + "\n"))?;
        return Ok(0);
    }
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, arguments, &mut state, style);
    ratatui::try_restore()?;
    shown.map(|()| 0)
}

fn look(arguments: &TopArguments, state: &mut State) -> Result<(), CtlError> {
    let Answer::Top(status, rows) = asked(&arguments.socket, Question::Top)? else {
        return Err(CtlError::Foreign("it answers something else".into()));
    };
    state.take(&status, rows);
    Ok(())
}

fn show(
    terminal: &mut DefaultTerminal,
    arguments: &TopArguments,
    state: &mut State,
    style: Style,
) -> Result<(), CtlError> {
    loop {
        draw(terminal, state, style)?;
        if event::poll(PACE)? {
            let Event::Key(key) = event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            let is_interrupt =
                key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
            let leaves = key.code == KeyCode::Esc && !state.is_detailed;
            if key.code == KeyCode::Char('q') || is_interrupt || leaves {
                return Ok(());
            }
            if key.code == KeyCode::Char('t') {
                state.note = match asked(&arguments.socket, Question::Trigger) {
                    Ok(_) => KEPT.to_owned(),
                    Err(error @ CtlError::Refused(_)) => error.to_string(),
                    Err(error) => return Err(error),
                };
            } else {
                state.key(key.code);
            }
        } else if !state.is_frozen {
            state.note.clear();
            look(arguments, state)?;
        }
    }
}

fn draw(terminal: &mut DefaultTerminal, state: &State, style: Style) -> io::Result<()> {
    terminal.draw(|frame| {
        let area = frame.area();
        let lines = render_top(&state.view(), area.width.into(), area.height.into(), style.unicode);
        let span = |(text, look): TopPiece| Span::styled(text, looks(look, style.color));
        let line = |pieces: Vec<TopPiece>| Line::from(pieces.into_iter().map(span).collect::<Vec<_>>());
        frame.render_widget(Paragraph::new(lines.into_iter().map(line).collect::<Text<'_>>()), area);
    })?;
    Ok(())
}

const fn looks(look: TopLook, has_color: bool) -> Look {
    match look {
        TopLook::Strong => Look::new().add_modifier(Modifier::BOLD),
        TopLook::Faint => Look::new().add_modifier(Modifier::DIM),
        TopLook::Chosen => Look::new().add_modifier(Modifier::REVERSED),
        TopLook::Color(color) if has_color => Look::new().fg(Color::Indexed(color)),
        TopLook::Plain | TopLook::Color(_) => Look::new(),
    }
}
