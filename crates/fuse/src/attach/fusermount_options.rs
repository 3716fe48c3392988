//! The options of a mount in the form that fusermount3 takes.

use crate::config::MountConfig;

pub(super) fn fusermount_options(config: &MountConfig) -> String {
    // A comma ends an option unless a backslash precedes it.
    let quoted = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,");
    let mut options = format!(
        "fsname={},subtype={}",
        quoted(&config.source),
        quoted(&config.subtype)
    );
    let table = [
        (config.read_only, "ro"),
        (config.no_suid, "nosuid"),
        (config.no_dev, "nodev"),
        (config.no_exec, "noexec"),
        (config.no_atime, "noatime"),
        (config.default_permissions, "default_permissions"),
        (config.allow_other, "allow_other"),
    ];
    for (_, option) in table.into_iter().filter(|(wanted, _)| *wanted) {
        options.push(',');
        options.push_str(option);
    }
    if let Some(size) = config.max_read {
        options.push_str(&format!(",max_read={size}"));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_quoted_where_they_are_names() {
        let mut config = MountConfig::new("a,b\\c", "gupfs");
        config.allow_other = false;
        config.read_only = true;
        config.max_read = Some(4096);
        let expected =
            "fsname=a\\,b\\\\c,subtype=gupfs,ro,nosuid,nodev,default_permissions,max_read=4096";
        assert_eq!(fusermount_options(&config), expected);
    }
}
