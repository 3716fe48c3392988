//! A place: a path on a host, as a user writes it.

/// How the host of a place is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via<'a> {
    /// It is this host.
    Here,
    /// By a command with the name of the host in it. The name was not checked: see [`is_host_name`].
    Command(&'a str),
    /// By an agent at `HOST:PORT`.
    Agent(&'a str),
}

/// `PATH` (on this host), `HOST:/PATH` or `tcp://HOST:PORT/PATH` (an agent): the host and the path. None of an agent without a path.
pub fn split(text: &str) -> Option<(Via<'_>, &str)> {
    if let Some(rest) = text.strip_prefix("tcp://") {
        let slash = rest.find('/')?;
        return Some((Via::Agent(&rest[..slash]), &rest[slash..]));
    }
    match text.split_once(":/") {
        Some((host, _)) if !host.contains('/') => {
            Some((Via::Command(host), &text[host.len() + 1..]))
        }
        _ => Some((Via::Here, text)),
    }
}

/// Whether a text can be nothing but a host in a line of the shell: neither a flag nor another command.
pub fn is_host_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@.-_".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(plain)
}

#[test]
fn a_place_is_here_or_behind_a_command_or_an_agent() {
    assert_eq!(split("/mnt/a"), Some((Via::Here, "/mnt/a")));
    assert_eq!(split("some/dir"), Some((Via::Here, "some/dir")));
    assert_eq!(split("dir/a:/b"), Some((Via::Here, "dir/a:/b")));
    let by_command = Some((Via::Command("me@node1"), "/mnt/a"));
    assert_eq!(split("me@node1:/mnt/a"), by_command);
    let by_agent = Some((Via::Agent("node1:7000"), "/mnt/a"));
    assert_eq!(split("tcp://node1:7000/mnt/a"), by_agent);
    assert_eq!(split("tcp://node1:7000"), None);
}

#[test]
fn a_host_name_is_neither_a_flag_nor_a_command() {
    for right in ["node1", "me@node-1.example", "10.0.0.1"] {
        assert!(is_host_name(right), "{right}");
    }
    for wrong in ["", "-oProxyCommand", "a;reboot", "a b", "$(x)"] {
        assert!(!is_host_name(wrong), "{wrong}");
    }
}
