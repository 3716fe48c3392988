//! Default layouts: what a directory says about the layouts of new files.

use super::Redundancy;
use crate::error::FsError;
use crate::ids::OstId;
use crate::limits::{COMPONENTS_MAX, STRIPE_COUNT_MAX, STRIPE_UNIT_MAX, STRIPE_UNIT_MIN};
use crate::units::{ByteCount, FileOffset};
use serde::{Deserialize, Serialize};

/// Default layout (as in Lustre) of new files in a directory; `gupfs layout set` sets it, new directories inherit it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DefaultLayout {
    /// In ascending order; the last has `to` = u64::MAX.
    pub components: Vec<DefaultComponent>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "EncodedComponent", into = "EncodedComponent")]
pub struct DefaultComponent {
    pub to: FileOffset,
    pub unit: ByteCount,
    /// Requested number of objects; the component gets fewer if fewer OSTs are usable. 0 means all.
    pub count: u32,
    /// Requested first target; None: the metadata server selects it by free space.
    pub first: Option<OstId>,
    pub redundancy: Redundancy,
}

/// As records and messages carry it: the upper half of `count` is the redundancy. Without redundancy it has the bytes of former versions,
/// and a former program that reads one with redundancy finds a count that is out of bounds.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct EncodedComponent {
    to: FileOffset,
    unit: ByteCount,
    count: u32,
    first: Option<OstId>,
}

const COUNT_BITS: u32 = 16;
const _: () = assert!(STRIPE_COUNT_MAX < 1 << COUNT_BITS);

impl From<DefaultComponent> for EncodedComponent {
    fn from(component: DefaultComponent) -> EncodedComponent {
        let DefaultComponent {
            to,
            unit,
            count,
            first,
            redundancy,
        } = component;
        EncodedComponent {
            to,
            unit,
            // A count beyond the bounds must not read as a redundancy.
            count: count.min((1 << COUNT_BITS) - 1) | redundancy.code() << COUNT_BITS,
            first,
        }
    }
}

impl TryFrom<EncodedComponent> for DefaultComponent {
    type Error = String;

    fn try_from(encoded: EncodedComponent) -> Result<DefaultComponent, String> {
        let EncodedComponent {
            to,
            unit,
            count,
            first,
        } = encoded;
        Ok(DefaultComponent {
            to,
            unit,
            count: count & ((1 << COUNT_BITS) - 1),
            first,
            redundancy: Redundancy::from_code(count >> COUNT_BITS)?,
        })
    }
}

impl Default for DefaultLayout {
    fn default() -> DefaultLayout {
        use crate::limits::{FIRST_COMPONENT_SIZE, STRIPE_COUNT_DEFAULT, STRIPE_UNIT_DEFAULT};
        let component = |to, count| DefaultComponent {
            to: FileOffset(to),
            unit: STRIPE_UNIT_DEFAULT,
            count,
            first: None,
            redundancy: Redundancy::None,
        };
        DefaultLayout {
            components: vec![
                component(FIRST_COMPONENT_SIZE.0, 1),
                component(u64::MAX, STRIPE_COUNT_DEFAULT),
            ],
        }
    }
}

impl DefaultLayout {
    /// Whether any component has redundancy.
    pub fn is_redundant(&self) -> bool {
        let mut components = self.components.iter();
        components.any(|component| component.redundancy != Redundancy::None)
    }

    /// # Errors
    /// `Invalid` when no layout can have these ranges, units or counts.
    pub fn check(&self) -> Result<(), FsError> {
        let mut from = 0;
        for component in &self.components {
            let unit_fits = (STRIPE_UNIT_MIN..=STRIPE_UNIT_MAX).contains(&component.unit)
                && component.unit.0.is_multiple_of(STRIPE_UNIT_MIN.0);
            if component.to.0 <= from || !unit_fits || component.count > STRIPE_COUNT_MAX {
                return Err(FsError::Invalid);
            }
            from = component.to.0;
        }
        if from == u64::MAX && self.components.len() <= COMPONENTS_MAX {
            Ok(())
        } else {
            Err(FsError::Invalid)
        }
    }
}
