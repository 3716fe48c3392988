//! Values that depend on the machine: `cpus`, `2*cpus`, `memory/8`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{SuiteError, SuiteResult};
use crate::size::Size;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Number(u64),
    Text(String),
}

/// This machine's numbers.
pub struct MachineNumbers {
    pub cpus: u64,
    /// Bytes.
    pub memory: u64,
}

impl Value {
    /// As bytes.
    ///
    /// # Errors
    ///
    /// The text is no size.
    pub fn size(&self) -> SuiteResult<u64> {
        match self {
            Value::Number(bytes) => Ok(*bytes),
            Value::Text(text) => text
                .parse()
                .map(|Size(bytes)| bytes)
                .map_err(SuiteError::usage),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

impl MachineNumbers {
    /// Puts a number in place of a word about the machine.
    ///
    /// # Errors
    ///
    /// The value speaks of the machine in words that are not known.
    pub fn resolve(&self, value: &mut Value) -> SuiteResult<()> {
        if let Value::Text(text) = value
            && let Some(found) = self.find(text)?
        {
            *value = found;
        }
        Ok(())
    }

    /// None of a text that is not about the machine.
    fn find(&self, text: &str) -> SuiteResult<Option<Value>> {
        let bad = || {
            SuiteError::usage(format!(
                "'{text}' is no number of a machine: write cpus, N*cpus or memory/N"
            ))
        };
        if let Some(times) = text.strip_suffix("cpus") {
            let times = match times.strip_suffix('*') {
                Some(times) => times.trim().parse().map_err(|_| bad())?,
                None if times.is_empty() => 1,
                None => return Err(bad()),
            };
            return Ok(Some(Value::Number(self.cpus * times)));
        }
        if let Some(parts) = text.strip_prefix("memory") {
            let parts = parts.strip_prefix('/').ok_or_else(bad)?;
            let parts: u64 = parts.parse().map_err(|_| bad())?;
            let share = self.memory.checked_div(parts).ok_or_else(bad)?;
            // A power of two, so that records of every size fit.
            let bytes = 1 << share.max(1 << 20).ilog2();
            return Ok(Some(Value::Text(Size(bytes).to_string())));
        }
        match text {
            "cpu" | "mem" | "ram" => Err(bad()),
            _ => Ok(None),
        }
    }
}

#[test]
fn numbers_of_a_machine_are_found_and_others_left() {
    let numbers = MachineNumbers {
        cpus: 6,
        memory: 24_000 << 20,
    };
    let find = |text: &str| {
        let mut value = Value::Text(text.into());
        numbers.resolve(&mut value).map(|()| value.to_string())
    };
    assert_eq!(find("cpus"), Ok("6".into()));
    assert_eq!(find("2*cpus"), Ok("12".into()));
    assert_eq!(find("memory/16"), Ok("1G".into()));
    assert_eq!(find("64K"), Ok("64K".into()));
    for wrong in ["memory/0", "memory", "x*cpus", "ncpus"] {
        assert!(find(wrong).is_err(), "{wrong}");
    }
}
