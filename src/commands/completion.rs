//! `completion`: prints the script with which a shell completes the command lines of poolctl.

use clap::{Args, ValueEnum};

use crate::commands::{Audience, Context, RunCommand};

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Arguments of `completion`: the shell.
#[derive(Args)]
pub struct Completion {
    /// Shell that the script is for
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

impl RunCommand for Completion {
    const NAME: &'static str = "completion";
    const ABOUT: &'static str = "Print the completion script for bash, zsh or fish";
    const EXAMPLE: &'static str = "poolctl completion bash > \"$HOME/poolctl.bash\"";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        context.print(match self.shell {
            Shell::Bash => include_str!("../../completions/poolctl.bash"),
            Shell::Zsh => include_str!("../../completions/_poolctl"),
            Shell::Fish => include_str!("../../completions/poolctl.fish"),
        })
    }
}
