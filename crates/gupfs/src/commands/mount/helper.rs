//! `mount.gupfs`: what mount(8) executes for `mount -t gupfs` and for lines of /etc/fstab, under this name of the same binary.

use super::background;
use crate::commands::own_executable;
use crate::exit::{CliError, CliResult, Exit};
use clap::Parser;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The name under which mount(8) looks for the program.
pub const NAME: &str = "mount.gupfs";

/// Exit codes of mount(8).
const WRONG_ARGUMENTS: u8 = 1;
const NOT_MOUNTED: u8 = 32;

/// Options that are flags of `gupfs mount`: `key=FILE` is `--key FILE`.
const FLAGS: [&str; 7] = [
    "key",
    "config",
    "tls",
    "tls-name",
    "deadline",
    "permissions",
    "transport",
];

/// Mount gupfs, as mount(8) does it: mount -t gupfs HOST[:PORT][,HOST…]:/ DIRECTORY
#[derive(Parser)]
#[command(name = NAME, version, after_help = "Examples:
  mount -t gupfs node1:/ /mnt/gupfs
  mount -t gupfs -o nosuid,key=/etc/gupfs/client.key node1,node2:/ /mnt/gupfs

A line of /etc/fstab:
  node1:/  /mnt/gupfs  gupfs  _netdev,nofail  0  0

Options: those of `gupfs mount -o`, and key=, config=, tls=, tls-name=, deadline=, permissions=, transport= with the values of its flags.

Exit codes: 0 mounted · 1 wrong arguments · 32 it could not be mounted")]
pub struct MountHelper {
    /// The metadata servers
    #[arg(value_name = "HOST[:PORT]:/")]
    source: String,
    /// Where the file system appears: an empty directory
    #[arg(value_name = "DIRECTORY")]
    point: PathBuf,
    /// Options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Do everything but mount
    #[arg(short = 'f')]
    fake: bool,
    /// Ignored: there is no /etc/mtab
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Ignored: an option that does not exist is an error
    #[arg(short = 's')]
    sloppy: bool,
    /// Print the command that is executed
    #[arg(short = 'v')]
    verbose: bool,
    /// Ignored: the type is gupfs
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
}

impl MountHelper {
    /// Some if this process was started under the helper's name.
    pub fn from_args() -> Option<MountHelper> {
        let first = std::env::args_os().next()?;
        (Path::new(&first).file_name() == Some(OsStr::new(NAME))).then(|| {
            MountHelper::try_parse().unwrap_or_else(|error| {
                let _ = error.print();
                // mount(8) takes 1 for wrong arguments.
                std::process::exit(i32::from(error.use_stderr()) * i32::from(WRONG_ARGUMENTS))
            })
        })
    }

    /// # Errors
    /// If the file system could not be mounted.
    pub fn run(self) -> CliResult<Exit> {
        let mut line = vec![own_executable::path()?];
        line.extend(self.command()?);
        if self.verbose {
            let words = line.iter().map(|word| word.to_string_lossy());
            println!("gupfs: {}", words.collect::<Vec<_>>().join(" "));
        }
        match self.fake {
            true => Ok(Exit::Fine),
            false => background::run(&line, &self.point),
        }
    }

    /// The arguments of `gupfs mount`.
    fn command(&self) -> CliResult<Vec<OsString>> {
        let mut arguments: Vec<OsString> = vec![
            "mount".into(),
            servers(&self.source)?.into(),
            self.point.clone().into(),
        ];
        let all = self.options.iter().flat_map(|options| options.split(','));
        for option in all.filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some((flag, value)) if FLAGS.contains(&flag) => {
                    arguments.push(format!("--{flag}").into());
                    arguments.push(value.into());
                }
                _ => {
                    arguments.push("-o".into());
                    arguments.push(option.into());
                }
            }
        }
        Ok(arguments)
    }
}

/// The end of the process as mount(8) expects it.
pub fn end(outcome: CliResult<Exit>) -> ExitCode {
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{NAME}: {error}");
            ExitCode::from(match error.exit {
                Exit::Unusable => WRONG_ARGUMENTS,
                _ => NOT_MOUNTED,
            })
        }
    }
}

/// The metadata servers in `HOST[:PORT][,HOST[:PORT]]:/`.
fn servers(source: &str) -> CliResult<&str> {
    let servers = source.strip_suffix(":/").unwrap_or(source);
    match servers.is_empty() || servers.contains('/') {
        false => Ok(servers),
        true => Err(CliError::new(format!(
            "'{source}' is no file system of gupfs"
        ))
        .todo("write HOST:/ or HOST:PORT:/, several hosts with commas between them; directories of it are mounted with `mount --bind`")
        .exit(Exit::Unusable)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(arguments: &[&str]) -> CliResult<Vec<String>> {
        let arguments = [&[NAME], arguments].concat();
        let command = MountHelper::try_parse_from(arguments).unwrap().command()?;
        Ok(command
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect())
    }

    #[test]
    fn the_arguments_of_mount_become_those_of_the_command() {
        let plain = command(&["node1:/", "/mnt/x"]).unwrap();
        assert_eq!(plain, ["mount", "node1", "/mnt/x"]);
        let options = [
            "node1,node2:7701:/",
            "/mnt/x",
            "-o",
            "rw,_netdev,,key=/k",
            "-sv",
        ];
        assert_eq!(
            command(&options).unwrap(),
            [
                "mount",
                "node1,node2:7701",
                "/mnt/x",
                "-o",
                "rw",
                "-o",
                "_netdev",
                "--key",
                "/k"
            ]
        );
    }

    #[test]
    fn a_source_with_a_directory_is_refused() {
        for source in [":/", "node1:/home", "/srv/gupfs", "http://node1"] {
            let error = command(&[source, "/mnt/x"]).unwrap_err().to_string();
            assert!(error.contains(source), "{error}");
        }
    }
}
