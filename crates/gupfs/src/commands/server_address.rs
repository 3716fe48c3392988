//! Arguments that are a path or a server's address.

use std::path::Path;

/// The argument, if it is a server's address and not a path.
pub fn server_address(argument: Option<&Path>) -> Option<String> {
    let given = argument?.to_str()?;
    let (host, port) = given.rsplit_once(':')?;
    let is_address = !host.contains('/') && port.parse::<u16>().is_ok();
    (is_address && !Path::new(given).exists()).then(|| given.to_owned())
}
