//! mount(2).

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::FileType;
use rustix::mount::MountFlags;

use crate::config::MountConfig;
use crate::error::MountError;
use crate::transport::Device;

pub(super) fn mount(path: &Path, config: &MountConfig) -> Result<OwnedFd, MountError> {
    let mode = match rustix::fs::stat(path) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode).as_raw_mode(),
        Err(error) => {
            return Err(MountError::Path {
                path: path.into(),
                errno: error.into(),
            });
        }
    };
    let device = Device::open().map_err(MountError::Device)?;
    let (uid, gid) = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let mut options = format!(
        "fd={},rootmode={mode:o},user_id={uid},group_id={gid}",
        device.as_raw_fd()
    );
    if config.default_permissions {
        options.push_str(",default_permissions");
    }
    if config.allow_other {
        options.push_str(",allow_other");
    }
    if let Some(size) = config.max_read {
        options.push_str(&format!(",max_read={size}"));
    }
    let kind = format!("fuse.{}", config.subtype);
    // Numbers and fixed words contain no zero byte.
    let options = CString::new(options).map_err(|_| MountError::Mount {
        path: path.into(),
        errno: crate::Errno::EINVAL,
    })?;
    rustix::mount::mount(
        config.source.as_str(),
        path,
        kind.as_str(),
        flags(config),
        options.as_c_str(),
    )
    .map_err(|error| MountError::Mount {
        path: path.into(),
        errno: error.into(),
    })?;
    Ok(device)
}

fn flags(config: &MountConfig) -> MountFlags {
    let table = [
        (config.read_only, MountFlags::RDONLY),
        (config.no_suid, MountFlags::NOSUID),
        (config.no_dev, MountFlags::NODEV),
        (config.no_exec, MountFlags::NOEXEC),
        (config.no_atime, MountFlags::NOATIME),
        (config.strict_atime, MountFlags::STRICTATIME),
        (config.no_dir_atime, MountFlags::NODIRATIME),
    ];
    table
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .fold(MountFlags::empty(), |flags, (_, flag)| flags | flag)
}
