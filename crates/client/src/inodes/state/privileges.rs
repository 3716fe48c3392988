//! The privileges of a program file that a write clears: capabilities always, setuid and setgid if the writer is unprivileged.

/// Which of them the file may still have, in the order in which they are cleared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Privileges {
    #[default]
    Unknown,
    NoCapabilities,
    None,
}

impl Privileges {
    fn after_write(kill: bool) -> Privileges {
        if kill {
            Privileges::None
        } else {
            Privileges::NoCapabilities
        }
    }

    /// Whether a write must make the server clear some.
    pub fn must_kill(self, kill: bool) -> bool {
        self < Privileges::after_write(kill)
    }

    /// The server has cleared them.
    pub fn set_killed(&mut self, kill: bool) {
        *self = (*self).max(Privileges::after_write(kill));
    }

    pub fn has_no_capability(self) -> bool {
        self >= Privileges::NoCapabilities
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privileged_write_clears_capabilities_only() {
        let mut privileges = Privileges::default();
        assert!(privileges.must_kill(false));
        privileges.set_killed(false);
        assert!(privileges.has_no_capability());
        assert!(!privileges.must_kill(false) && privileges.must_kill(true));
        privileges.set_killed(true);
        privileges.set_killed(false);
        assert!(!privileges.must_kill(true));
    }
}
