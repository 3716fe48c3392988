//! The opcodes of requests.

macro_rules! opcodes {
    ($($name:ident = $number:literal,)*) => {
        /// The operation of a request. Numbers that are not listed get ENOSYS.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Opcode {
            $($name = $number,)*
        }

        impl Opcode {
            /// Every opcode, in numeric order.
            pub const ALL: &[Opcode] = &[$(Opcode::$name,)*];

            pub const fn from_raw(raw: u32) -> Option<Opcode> {
                match raw {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            pub const fn name(self) -> &'static str {
                match self {
                    $(Opcode::$name => stringify!($name),)*
                }
            }
        }
    };
}

opcodes! {
    Lookup = 1,
    Forget = 2,
    Getattr = 3,
    Setattr = 4,
    Readlink = 5,
    Symlink = 6,
    Mknod = 8,
    Mkdir = 9,
    Unlink = 10,
    Rmdir = 11,
    Rename = 12,
    Link = 13,
    Open = 14,
    Read = 15,
    Write = 16,
    Statfs = 17,
    Release = 18,
    Fsync = 20,
    Setxattr = 21,
    Getxattr = 22,
    Listxattr = 23,
    Removexattr = 24,
    Flush = 25,
    Init = 26,
    Opendir = 27,
    Readdir = 28,
    Releasedir = 29,
    Fsyncdir = 30,
    Getlk = 31,
    Setlk = 32,
    Setlkw = 33,
    Access = 34,
    Create = 35,
    Interrupt = 36,
    Bmap = 37,
    Destroy = 38,
    Ioctl = 39,
    Poll = 40,
    NotifyReply = 41,
    BatchForget = 42,
    Fallocate = 43,
    Readdirplus = 44,
    Rename2 = 45,
    Lseek = 46,
    CopyFileRange = 47,
    Setupmapping = 48,
    Removemapping = 49,
    Syncfs = 50,
    Tmpfile = 51,
    Statx = 52,
    CopyFileRange64 = 53,
}

impl Opcode {
    /// Whether the kernel expects no reply, and would reject one.
    pub const fn has_no_reply(self) -> bool {
        matches!(
            self,
            Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt | Opcode::NotifyReply
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_is_found_by_its_number() {
        for opcode in Opcode::ALL {
            assert_eq!(Opcode::from_raw(*opcode as u32), Some(*opcode));
        }
        assert_eq!(Opcode::from_raw(7), None);
        assert_eq!(Opcode::from_raw(54), None);
        assert_eq!(Opcode::from_raw(4096), None);
    }
}
