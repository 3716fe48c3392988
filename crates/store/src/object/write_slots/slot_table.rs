//! Which entry of the slot file each slot has, without I/O. When all entries are in use, the least recently used one is taken from
//! its slot.

use super::entry::{WriteSlotEntry, WriteSlotKey};
use gupfs_proto::SessionId;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Mutex;

/// One entry of the slot file. It outlives the slot that has it.
pub(super) struct EntryCell {
    pub number: u32,
    /// Locked while a write of the slot is under way.
    running: Arc<Mutex<()>>,
    /// Locked while the entry is written to the file. None: it is unused.
    pub content: Mutex<Option<WriteSlotEntry>>,
}

pub(super) struct WriteSlotTable {
    slots: BTreeMap<WriteSlotKey, TableSlot>,
    /// The slots, by their last use.
    by_use: BTreeMap<u64, WriteSlotKey>,
    last_use: u64,
    /// All entries of the file, by their numbers.
    cells: Vec<Arc<EntryCell>>,
    /// Numbers of entries that no slot has.
    free: Vec<u32>,
    limit: u32,
}

struct TableSlot {
    entry_number: u32,
    used: u64,
}

impl EntryCell {
    fn new(number: u32, content: Option<WriteSlotEntry>) -> Arc<EntryCell> {
        Arc::new(EntryCell {
            number,
            running: Arc::default(),
            content: Mutex::new(content),
        })
    }

    /// Whether no write of the slot is under way.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.running) == 1
    }
}

impl WriteSlotTable {
    /// A table of the entries that were found in the slot file, in any order; `end`: how many the file has. `limit`: how many there
    /// may be.
    pub fn new(mut found: Vec<(u32, WriteSlotEntry)>, end: u32, limit: u32) -> WriteSlotTable {
        let end = end.min(limit);
        let mut table = WriteSlotTable {
            slots: BTreeMap::new(),
            by_use: BTreeMap::new(),
            last_use: 0,
            cells: (0..end)
                .map(|number| EntryCell::new(number, None))
                .collect(),
            free: Vec::new(),
            limit,
        };
        found.retain(|(number, _)| *number < end);
        // The order of their last use.
        found.sort_by_key(|(_, entry)| entry.sequence);
        let mut is_used = vec![false; end as usize];
        for (entry_number, entry) in found {
            let key = entry.key;
            if table.slots.contains_key(&key) {
                let older = table.remove(key);
                is_used[older as usize] = false;
            }
            is_used[entry_number as usize] = true;
            table.cells[entry_number as usize] = EntryCell::new(entry_number, Some(entry));
            table.use_entry(key, entry_number);
        }
        let free = (0..end).filter(|number| !is_used[*number as usize]);
        table.free = free.collect();
        table
    }

    /// The entry of a slot, which becomes the most recently used one, and the lock of its writes. None while all entries belong to
    /// writes under way.
    pub fn entry_of(&mut self, key: WriteSlotKey) -> Option<(Arc<EntryCell>, Arc<Mutex<()>>)> {
        let entry_number = match self.slots.contains_key(&key) {
            true => self.remove(key),
            false => self.unused_entry()?,
        };
        self.use_entry(key, entry_number);
        let cell = self.cell(entry_number);
        let running = cell.running.clone();
        Some((cell, running))
    }

    fn unused_entry(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        let next = self.cells.len() as u32;
        if next < self.limit {
            self.cells.push(EntryCell::new(next, None));
            return Some(next);
        }
        let idle = |key: &&WriteSlotKey| self.cell_of(&self.slots[*key]).is_idle();
        let oldest = *self.by_use.values().find(idle)?;
        Some(self.remove(oldest))
    }

    /// Gives an entry that no slot has to a slot without an entry.
    fn use_entry(&mut self, key: WriteSlotKey, entry_number: u32) {
        self.last_use += 1;
        let slot = TableSlot {
            entry_number,
            used: self.last_use,
        };
        self.by_use.insert(slot.used, key);
        self.slots.insert(key, slot);
    }

    /// Takes the entry from a slot.
    fn remove(&mut self, key: WriteSlotKey) -> u32 {
        let slot = self.slots.remove(&key).expect("a slot of the table");
        self.by_use.remove(&slot.used);
        slot.entry_number
    }

    /// Frees the entries of a session that has ended.
    pub fn free(&mut self, session: SessionId) {
        let first = WriteSlotKey { session, slot: 0 };
        let last = WriteSlotKey {
            session,
            slot: u16::MAX,
        };
        let slots = self.slots.range(first..=last);
        let idle = slots.filter(|(_, slot)| self.cell_of(slot).is_idle());
        let keys: Vec<WriteSlotKey> = idle.map(|(key, _)| *key).collect();
        for key in keys {
            let number = self.remove(key);
            self.free.push(number);
        }
    }

    /// How many slots have an entry.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn cell(&self, entry_number: u32) -> Arc<EntryCell> {
        self.cells[entry_number as usize].clone()
    }

    fn cell_of(&self, slot: &TableSlot) -> &EntryCell {
        &self.cells[slot.entry_number as usize]
    }

    /// The entries of all slots.
    pub fn cells(&self) -> Vec<Arc<EntryCell>> {
        let slots = self.slots.values();
        slots.map(|slot| self.cell(slot.entry_number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::write_slots::entry::WriteProgress;
    use gupfs_proto::{Generation, InodeId, ObjectId, WriteVerifier};

    fn key(session: u64, slot: u16) -> WriteSlotKey {
        WriteSlotKey {
            session: SessionId(session),
            slot,
        }
    }

    fn entry(key: WriteSlotKey, sequence: u64) -> WriteSlotEntry {
        WriteSlotEntry {
            key,
            number: sequence,
            sequence,
            object: ObjectId {
                ino: InodeId(1),
                generation: Generation(1),
                stripe: 0,
            },
            range: 0..1,
            data_sum: 0,
            verifier: WriteVerifier(1),
            progress: WriteProgress::Begun,
        }
    }

    fn number_of(table: &mut WriteSlotTable, key: WriteSlotKey) -> Option<u32> {
        table.entry_of(key).map(|(cell, _)| cell.number)
    }

    #[test]
    fn a_full_table_takes_the_least_recently_used_entry_that_no_write_uses() {
        let mut table = WriteSlotTable::new(Vec::new(), 0, 3);
        let of = |session| key(session, 0);
        let (first, under_way) = table.entry_of(of(1)).unwrap();
        assert_eq!(first.number, 0);
        assert_eq!(number_of(&mut table, of(2)), Some(1));
        assert_eq!(number_of(&mut table, of(3)), Some(2));
        assert_eq!(number_of(&mut table, of(2)), Some(1), "used again");
        // A write of the first one is under way, and the second was used after the third.
        assert_eq!(number_of(&mut table, of(4)), Some(2));
        assert_eq!(number_of(&mut table, of(5)), Some(1));
        drop(under_way);
        assert_eq!(number_of(&mut table, of(6)), Some(0));
        let all: Vec<_> = (4..7).map(|s| table.entry_of(of(s)).unwrap()).collect();
        assert_eq!(number_of(&mut table, of(7)), None, "all are in use");
        drop(all);
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn entries_of_an_ended_session_are_free_again() {
        let mut table = WriteSlotTable::new(Vec::new(), 0, 3);
        for slot in 0..2 {
            number_of(&mut table, key(7, slot));
        }
        number_of(&mut table, key(8, 0));
        table.free(SessionId(7));
        assert_eq!(table.len(), 1);
        for session in [9, 10] {
            assert!(number_of(&mut table, key(session, 0)).unwrap() < 2);
        }
        assert_eq!(number_of(&mut table, key(8, 0)), Some(2));
    }

    #[test]
    fn entries_from_the_file_keep_their_order_of_use() {
        let (old, new) = (key(1, 0), key(2, 0));
        let found = vec![
            (0, entry(new, 8)),
            (2, entry(old, 5)),
            // As damage may leave it: an older entry of the same slot.
            (3, entry(new, 6)),
            (9, entry(key(3, 0), 7)),
        ];
        let mut table = WriteSlotTable::new(found, 10, 4);
        assert_eq!(table.len(), 2);
        let mut unused: Vec<_> = (5..7)
            .map(|session| number_of(&mut table, key(session, 0)).unwrap())
            .collect();
        unused.sort_unstable();
        assert_eq!(unused, [1, 3]);
        assert_eq!(number_of(&mut table, key(7, 0)), Some(2), "the oldest");
        assert_eq!(number_of(&mut table, new), Some(0));
    }
}
