//! What `top` takes.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Needs a resident agent (`guestscope watch`). Keys: q quits, s changes the order, f stops and resumes the
screen, the arrows choose a row, enter shows it in detail, t keeps what was seen around now as an
incident. Where standard output is no terminal, one screen is printed.

Examples:
  sudo guestscope top
  sudo guestscope top | cat                one screen as text

Exit codes: 0 success, 2 failure.")]
pub struct TopArguments {
    /// The agent's control socket, as `socket` in its configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/guestscope/watch.sock")]
    pub socket: PathBuf,
}
