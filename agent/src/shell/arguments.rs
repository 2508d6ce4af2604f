//! What `completions` and `man` take.

use clap::Args;
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  guestscope completions bash > /etc/bash_completion.d/guestscope
  guestscope completions zsh > \"${fpath[1]}/_guestscope\"
  guestscope completions fish > ~/.config/fish/completions/guestscope.fish

Exit codes: 0 success, 2 failure.")]
pub struct CompletionsArguments {
    /// The shell.
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  guestscope man | man -l -                                        read the page
  guestscope man compare > /usr/share/man/man1/guestscope-compare.1

Exit codes: 0 success, 2 failure.")]
pub struct ManArguments {
    /// Command whose page is printed [default: the page of guestscope itself].
    pub command: Option<String>,
}
