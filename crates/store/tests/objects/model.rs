//! The model: an object is an array of bytes, of which a crash may leave older versions.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Content of an object; None if it does not exist.
pub type Bytes = Option<Vec<u8>>;

/// Every state of an object since its last sync, the oldest first.
#[derive(Clone, Debug)]
pub struct History {
    states: Vec<Bytes>,
    /// The process died during the last change.
    torn: bool,
}

impl Default for History {
    fn default() -> History {
        History {
            states: vec![None],
            torn: false,
        }
    }
}

impl History {
    pub fn now(&self) -> &Bytes {
        self.states.last().expect("there is a state")
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.now().clone().unwrap_or_default()
    }

    pub fn may_be_absent(&self) -> bool {
        self.states.iter().any(Option::is_none)
    }

    /// Adds a change; `answered`: whether the target acknowledged it.
    pub fn push(&mut self, state: Bytes, answered: bool) {
        self.states.push(state);
        self.torn = !answered;
    }

    pub fn synced(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// Checks the content after a kill: acknowledged changes are there, and are durable or not as before.
    pub fn looked_after_kill(&mut self, found: &Bytes) -> Result<(), String> {
        let possible = self.states.len() - (1 + usize::from(self.torn)).min(self.states.len());
        may_be(&self.states[possible..], found)?;
        self.push(found.clone(), true);
        Ok(())
    }

    /// Checks the content after a power loss: synced changes are there, and everything that is there is durable.
    pub fn looked_after_power_cut(&mut self, found: &Bytes) -> Result<(), String> {
        may_be(&self.states, found)?;
        *self = History {
            states: vec![found.clone()],
            torn: false,
        };
        Ok(())
    }
}

/// Whether `found` can result from these states: each byte is that of one of them, and the length is that of one.
fn may_be(states: &[Bytes], found: &Bytes) -> Result<(), String> {
    let Some(found) = found else {
        let absent = states.iter().any(Option::is_none);
        return absent.then_some(()).ok_or("the object is gone".into());
    };
    let mut lens = states.iter().flatten().map(Vec::len).peekable();
    if lens.peek().is_none() {
        return Err("the object exists and was never created".into());
    }
    // The name of a new file may survive without its length.
    let is_new = found.is_empty() && states.iter().any(Option::is_none);
    if !is_new && !lens.any(|len| len == found.len()) {
        return Err(format!(
            "the object has {} bytes, the length of none of its states",
            found.len()
        ));
    }
    // Most bytes equal those of one state: compare in large steps, and byte by byte where they differ.
    for start in (0..found.len()).step_by(STEP) {
        let part = &found[start..found.len().min(start + STEP)];
        if states
            .iter()
            .any(|state| part_of(state, start, part.len()) == part)
        {
            continue;
        }
        for (index, byte) in part.iter().enumerate() {
            let at = start + index;
            if !states.iter().any(|state| part_of(state, at, 1)[0] == *byte) {
                return Err(format!("byte {at} is {byte}, as in none of its states"));
            }
        }
    }
    Ok(())
}

const STEP: usize = 512;

/// Bytes of a state, with zeros after its end.
fn part_of(state: &Bytes, at: usize, len: usize) -> Cow<'_, [u8]> {
    let state = state.as_deref().unwrap_or_default();
    match state.get(at..at + len) {
        Some(part) => Cow::Borrowed(part),
        None => {
            let mut part = state.get(at..).unwrap_or_default().to_vec();
            part.resize(len, 0);
            Cow::Owned(part)
        }
    }
}

pub type Model = BTreeMap<u64, History>;

pub fn overwrite(bytes: &mut Vec<u8>, at: u64, data: &[u8]) {
    let end = at as usize + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at as usize..end].copy_from_slice(data);
}
