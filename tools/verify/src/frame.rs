//! Messages on a pipe or socket: length (32 bits, little endian), then postcard.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message that is believed: many times what a worker does between two reports.
const LENGTH_MAX: usize = 256 << 20;

pub fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(message, bytes).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)?;
    to.flush()
}

/// None: the other side has closed between two messages.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    read_at_most(from, LENGTH_MAX)
}

/// The same, and no message longer than that is believed.
fn read_at_most<T: DeserializeOwned>(from: &mut impl Read, most: usize) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("a message of {length} bytes"),
        ));
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes)
        .map(Some)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Longest message that an agent reads before the token is proved.
const TOKEN_MESSAGE_MAX: usize = 1024;

/// Proves the token to an agent.
pub fn send_token(to: &mut TcpStream, token: &str) -> io::Result<()> {
    write(to, &token)
}

/// The token that a connection sends to an agent.
pub fn receive_token(from: &mut TcpStream) -> io::Result<Option<String>> {
    read_at_most(from, TOKEN_MESSAGE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_went_and_a_longer_one_is_refused() {
        let mut wire = Vec::new();
        write(&mut wire, &"a token").unwrap();
        let read = |most| read_at_most::<String>(&mut wire.as_slice(), most);
        assert_eq!(read(8).unwrap().as_deref(), Some("a token"));
        assert_eq!(read(7).unwrap_err().kind(), ErrorKind::InvalidData);
        let cut = super::read::<String>(&mut &wire[..wire.len() - 1]);
        assert_eq!(cut.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(super::read::<String>(&mut [].as_slice()).unwrap(), None);
    }
}
