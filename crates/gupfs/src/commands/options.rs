//! Mount options in the syntax of mount(8) and /etc/fstab: `-o noatime,ro`.

use crate::config::{self, Atime};
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;

#[derive(Args)]
pub struct MountOptions {
    /// Options as mount(8) has them, separated by commas: ro, rw, noatime, relatime, strictatime, diratime, nodiratime, suid,
    /// nosuid, dev, nodev, exec, noexec, allow_other
    #[arg(short = 'o', long = "options", value_name = "OPTIONS")]
    options: Vec<String>,
}

/// The effect of one option; a later option overrides an earlier one.
enum Effect {
    /// Matches the default, or concerns only mount(8).
    None,
    ReadOnly(bool),
    Atime(Atime),
    DirectoryAtime(bool),
    Setuid(bool),
    Devices(bool),
    Exec(bool),
    AllowOther,
}

impl MountOptions {
    /// Sets in the configuration what the options give.
    ///
    /// # Errors
    /// If gupfs has no such option.
    pub fn apply_to(&self, mount: &mut config::Mount) -> CliResult<()> {
        let all = self.options.iter().flat_map(|options| options.split(','));
        for option in all.filter(|option| !option.is_empty()) {
            match effect(option)? {
                Effect::None => {}
                Effect::ReadOnly(is) => mount.read_only = Some(is),
                Effect::Atime(rule) => mount.atime = Some(rule),
                Effect::DirectoryAtime(is) => mount.directory_atime = Some(is),
                Effect::Setuid(is) => mount.setuid = Some(is),
                Effect::Devices(is) => mount.devices = Some(is),
                Effect::Exec(is) => mount.exec = Some(is),
                Effect::AllowOther => mount.allow_other = Some(true),
            }
        }
        Ok(())
    }
}

fn effect(option: &str) -> CliResult<Effect> {
    Ok(match option {
        "ro" => Effect::ReadOnly(true),
        "rw" => Effect::ReadOnly(false),
        "noatime" => Effect::Atime(Atime::Never),
        "relatime" | "atime" | "norelatime" | "nostrictatime" => Effect::Atime(Atime::Relative),
        "strictatime" => Effect::Atime(Atime::Always),
        "nodiratime" => Effect::DirectoryAtime(false),
        "diratime" => Effect::DirectoryAtime(true),
        "suid" => Effect::Setuid(true),
        "nosuid" => Effect::Setuid(false),
        "dev" => Effect::Devices(true),
        "nodev" => Effect::Devices(false),
        "exec" => Effect::Exec(true),
        "noexec" => Effect::Exec(false),
        "allow_other" => Effect::AllowOther,
        "defaults" | "default_permissions" | "async" | "auto" | "noauto" | "nofail" | "_netdev" => {
            Effect::None
        }
        // By convention, options for other programs.
        other if other.starts_with("x-") => Effect::None,
        other => {
            return Err(CliError::new(format!("there is no mount option '{other}'"))
                .todo("`gupfs mount --help` lists all options")
                .exit(Exit::Unusable));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(options: &[&str]) -> CliResult<config::Mount> {
        let options = options.iter().map(|option| option.to_string()).collect();
        let mut mount = config::Mount::default();
        MountOptions { options }.apply_to(&mut mount)?;
        Ok(mount)
    }

    #[test]
    fn options_override_the_configuration_and_later_options_earlier_ones() {
        let mount = apply(&[
            "rw,noatime,nodiratime",
            "ro,,strictatime,x-systemd.automount",
        ]);
        let expected = config::Mount {
            read_only: Some(true),
            atime: Some(Atime::Always),
            directory_atime: Some(false),
            ..config::Mount::default()
        };
        assert_eq!(mount.unwrap(), expected);
    }

    #[test]
    fn an_unknown_option_is_named() {
        let error = apply(&["ro,lazytime"]).unwrap_err().to_string();
        assert!(error.contains("'lazytime'"), "{error}");
    }
}
