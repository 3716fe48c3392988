//! The command line as a whole; each command defines its own arguments.

use crate::commands;
use crate::exit::{CliResult, Exit};
use clap::builder::styling::{AnsiColor, Styles};
use clap::{CommandFactory, Parser, Subcommand};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// A parallel file system for research centres: one name space, its bytes striped over many targets
#[derive(Parser)]
#[command(
    name = "gupfs",
    version,
    styles = STYLES,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Example:\n  gupfs up /srv/gupfs --mount /mnt/gupfs\n\nA command's own help: gupfs COMMAND --help. Manual pages: gupfs man."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Up(commands::up::Up),
    Mds(commands::mds::Mds),
    Oss(commands::oss::Oss),
    #[command(subcommand)]
    Ost(commands::ost::Ost),
    #[command(subcommand)]
    Key(commands::key::Key),
    Mount(commands::mount::Mount),
    #[command(subcommand)]
    Tls(commands::tls::Tls),
    Stop(commands::stop::Stop),
    Status(commands::status::Status),
    Df(commands::df::Df),
    Top(commands::top::Top),
    Sync(commands::sync::Sync),
    #[command(subcommand)]
    Layout(commands::layout::Layout),
    Check(commands::check::Check),
    Rebalance(commands::rebalance::RebalanceCommand),
    Resync(commands::resync::ResyncCommand),
    Scrub(commands::scrub::Scrub),
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    Doctor(commands::doctor::Doctor),
    #[cfg(feature = "tools")]
    #[command(subcommand)]
    Bench(commands::bench::Bench),
    #[cfg(feature = "tools")]
    Verify(commands::verify::Verify),
    #[cfg(not(feature = "tools"))]
    Bench(commands::without_tools::WithoutTools),
    #[cfg(not(feature = "tools"))]
    Verify(commands::without_tools::WithoutTools),
    Completions(commands::completions::Completions),
    Man(commands::man::Man),
    Version(commands::version::Version),
}

impl Command {
    /// As the user typed it, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Up(_) => "up",
            Command::Mds(_) => "mds",
            Command::Oss(_) => "oss",
            Command::Ost(_) => "ost",
            Command::Key(_) => "key",
            Command::Mount(_) => "mount",
            Command::Tls(_) => "tls",
            Command::Stop(_) => "stop",
            Command::Status(_) => "status",
            Command::Df(_) => "df",
            Command::Top(_) => "top",
            Command::Sync(_) => "sync",
            Command::Layout(_) => "layout",
            Command::Check(_) => "check",
            Command::Rebalance(_) => "rebalance",
            Command::Resync(_) => "resync",
            Command::Scrub(_) => "scrub",
            Command::Config(_) => "config",
            Command::Doctor(_) => "doctor",
            Command::Bench(_) => "bench",
            Command::Verify(_) => "verify",
            Command::Completions(_) => "completions",
            Command::Man(_) => "man",
            Command::Version(_) => "version",
        }
    }

    pub fn run(self) -> CliResult<Exit> {
        match self {
            Command::Tls(tls) => tls.run(),
            Command::Up(up) => up.run(),
            Command::Mds(mds) => mds.run(),
            Command::Oss(oss) => oss.run(),
            Command::Ost(ost) => ost.run(),
            Command::Key(key) => key.run(),
            Command::Mount(mount) => mount.run(),
            Command::Stop(stop) => stop.run(),
            Command::Status(status) => status.run(),
            Command::Df(df) => df.run(),
            Command::Top(top) => top.run(),
            Command::Sync(sync) => sync.run(),
            Command::Layout(layout) => layout.run(),
            Command::Check(check) => check.run(),
            Command::Rebalance(rebalance) => rebalance.run(),
            Command::Resync(resync) => resync.run(),
            Command::Scrub(scrub) => scrub.run(),
            Command::Config(config) => config.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Bench(bench) => bench.run(),
            #[cfg(feature = "tools")]
            Command::Verify(verify) => commands::verify::run(verify),
            #[cfg(not(feature = "tools"))]
            Command::Verify(verify) => verify.run(),
            Command::Completions(completions) => completions.run(Cli::command()),
            Command::Man(man) => man.run(Cli::command()),
            Command::Version(version) => version.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_no_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example_and_its_exit_codes() {
        fn check(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let path = format!("{path} {}", sub.get_name());
                if sub.has_subcommands() {
                    check(sub, &path);
                    continue;
                }
                let after = sub
                    .get_after_help()
                    .map(|text| text.to_string())
                    .unwrap_or_default();
                assert!(
                    after.contains(&format!("  gupfs{path}")),
                    "{path} has no example"
                );
                assert!(
                    after.contains("Exit code"),
                    "{path} does not tell its exit codes"
                );
            }
        }
        check(&Cli::command(), "");
    }
}
