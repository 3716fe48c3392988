//! The slot file of a target: a header, then one entry for each slot. It exists from the first numbered write on.

use super::entry::{ENTRY_LENGTH, WriteSlotEntry};
use crate::object::error::{OpenError, OpenErrorKind};
use crate::object::limits::WRITE_SLOT_ENTRIES;
use gupfs_platform::{Disk, DiskError, DiskErrorKind, DiskFile, OnCacheMiss, OpenHow};
use tokio::sync::OnceCell;

const FILE: &str = "write_slots";
const TEMPORARY: &str = "write_slots.new";

const MAGIC: &[u8; 8] = b"gupfswsl";
const VERSION: u32 = 1;
/// As long as an entry, so that the entries begin at multiples of their length.
const HEADER_LENGTH: usize = ENTRY_LENGTH;

pub(super) struct WriteSlotFile {
    disk: Disk,
    /// Unset while there is no usable file.
    file: OnceCell<DiskFile>,
}

/// What a start finds in the slot file.
#[derive(Default)]
pub(super) struct FoundEntries {
    pub entries: Vec<(u32, WriteSlotEntry)>,
    /// How many entries the file has, used or not.
    pub end: u32,
}

impl WriteSlotFile {
    /// Opens the file and reads its entries. Damaged ones are left out: without them a repeated write of their slots is executed
    /// again, and that is a smaller loss than a target that does not serve.
    ///
    /// # Errors
    /// `Newer` if a newer gupfs wrote the file, `Disk` if the disk failed.
    pub async fn open(disk: &Disk) -> Result<(WriteSlotFile, FoundEntries), OpenError> {
        let slot_file = WriteSlotFile {
            disk: disk.clone(),
            file: OnceCell::new(),
        };
        let file = match disk.open(FILE, OpenHow::write()).await {
            Ok(file) => file,
            Err(error) if error.kind == DiskErrorKind::NotFound => {
                return Ok((slot_file, FoundEntries::default()));
            }
            Err(error) => return Err(error.into()),
        };
        let most = HEADER_LENGTH + WRITE_SLOT_ENTRIES as usize * ENTRY_LENGTH;
        let len = usize::try_from(file.len().await?).map_or(most, |len| len.min(most));
        let (bytes, len) = file
            .read_owned(vec![0; len], 0, OnCacheMiss::HandOff)
            .await?;
        if !check_header(&bytes[..len])? {
            return Ok((slot_file, FoundEntries::default()));
        }
        let found = decode_entries(&bytes[HEADER_LENGTH..len]);
        // The file that was just opened is the only one.
        let _ = slot_file.file.set(file);
        Ok((slot_file, found))
    }

    pub fn exists(&self) -> bool {
        self.file.initialized()
    }

    /// Writes an entry into the page cache, which survives the end of the process. Makes the file if there is none.
    pub async fn write(&self, number: u32, bytes: &[u8; ENTRY_LENGTH]) -> Result<(), DiskError> {
        let file = self.file.get_or_try_init(|| self.create()).await?;
        let at = HEADER_LENGTH as u64 + u64::from(number) * ENTRY_LENGTH as u64;
        file.write_at(bytes, at).await
    }

    /// Makes all entries survive a power loss.
    pub async fn sync(&self) -> Result<(), DiskError> {
        match self.file.get() {
            Some(file) => file.sync_data().await,
            None => Ok(()),
        }
    }

    /// Makes an empty file, durable when this returns, and replaces one with a damaged header.
    async fn create(&self) -> Result<DiskFile, DiskError> {
        let file = (self.disk)
            .open(TEMPORARY, OpenHow::write().create())
            .await?;
        file.set_len(0).await?; // drops what an interrupted call left
        file.write_at(&header(), 0).await?;
        file.sync_data().await?;
        self.disk.rename(TEMPORARY, FILE).await?;
        self.disk.sync_dir(".").await?;
        Ok(file)
    }
}

fn header() -> [u8; HEADER_LENGTH] {
    let mut out = [0; HEADER_LENGTH];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&(ENTRY_LENGTH as u32).to_le_bytes());
    let sum = crc32c::crc32c(&out[..HEADER_LENGTH - 4]);
    out[HEADER_LENGTH - 4..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Whether the file can be used. A damaged header is logged.
fn check_header(bytes: &[u8]) -> Result<bool, OpenError> {
    // Version before checksum: a newer version may have another header.
    if let Some(version) = bytes.get(8..12).filter(|_| bytes.starts_with(MAGIC)) {
        let version = u32::from_le_bytes(version.try_into().expect("four bytes"));
        if version > VERSION {
            return Err(OpenError::new(
                OpenErrorKind::Newer,
                format!(
                    "the target's write slots have format version {version}, and this gupfs knows versions up to {VERSION}: use the newer gupfs"
                ),
            ));
        }
    }
    let is_valid = bytes.get(..HEADER_LENGTH) == Some(&header()[..]);
    if !is_valid {
        tracing::warn!(
            file = FILE,
            "the header of the write slots is damaged; the target begins a new file, and writes that clients repeat now are executed again"
        );
    }
    Ok(is_valid)
}

fn decode_entries(bytes: &[u8]) -> FoundEntries {
    let (whole, _) = bytes.as_chunks::<ENTRY_LENGTH>();
    let mut found = FoundEntries {
        entries: Vec::new(),
        // A rest that is shorter than an entry is one whose write was torn.
        end: bytes.len().div_ceil(ENTRY_LENGTH) as u32,
    };
    let mut damaged = 0;
    for (number, bytes) in (0..).zip(whole) {
        match WriteSlotEntry::decode(bytes) {
            Ok(Some(entry)) => found.entries.push((number, entry)),
            Ok(None) => {}
            Err(_) => damaged += 1,
        }
    }
    if damaged > 0 {
        tracing::warn!(
            file = FILE,
            damaged,
            "entries of the write slots do not match their checksums; writes of these slots that clients repeat now are executed again"
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_is_refused_by_name_and_a_damaged_header_is_not_used() {
        assert!(check_header(&header()).unwrap());
        let mut newer = header();
        newer[8] = 2;
        let error = check_header(&newer).unwrap_err();
        assert_eq!(error.kind, OpenErrorKind::Newer);
        assert_eq!(
            error.to_string(),
            "the target's write slots have format version 2, and this gupfs knows versions up to 1: use the newer gupfs"
        );
        for bit in 0..64 {
            let mut flipped = header();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!check_header(&flipped).unwrap());
        }
        for len in [0, 8, 11, 12, HEADER_LENGTH - 1] {
            assert!(!check_header(&header()[..len]).unwrap());
        }
    }
}
