//! What a user reads when it did not work, and the exit code.

use std::fmt;
use std::path::Path;

/// Why a run ended.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Trouble {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
enum Kind {
    /// What was asked for is not possible: exit 2.
    Asked,
    /// The world: exit 1.
    Met,
    /// Somebody else's, who will tell.
    Followed,
}

pub type Outcome<T> = Result<T, Trouble>;

impl Trouble {
    /// What was asked for is not possible: nothing was done.
    pub fn asked(text: impl Into<String>) -> Trouble {
        Trouble {
            kind: Kind::Asked,
            text: text.into(),
        }
    }

    /// Something on the way failed.
    pub fn met(text: impl Into<String>) -> Trouble {
        Trouble {
            kind: Kind::Met,
            text: text.into(),
        }
    }

    /// It stopped since another met trouble.
    pub fn followed() -> Trouble {
        Trouble {
            kind: Kind::Followed,
            text: "another worker met trouble".into(),
        }
    }

    pub fn is_own(&self) -> bool {
        self.kind != Kind::Followed
    }

    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Asked => 2,
            Kind::Met | Kind::Followed => 1,
        }
    }

    /// The same, with where it happened.
    pub fn at(self, place: impl fmt::Display) -> Trouble {
        let text = format!("{place}: {}", self.text);
        Trouble { text, ..self }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Trouble {}

/// What all came to, or the first trouble: rather one that somebody met than one of those who stopped because of it.
pub fn first_own<T>(all: impl IntoIterator<Item = Outcome<T>>) -> Outcome<Vec<T>> {
    let (mut well, mut first) = (Vec::new(), None::<Trouble>);
    for outcome in all {
        match outcome {
            Ok(value) => well.push(value),
            Err(trouble) => {
                let better = first.as_ref().is_none_or(|other| !other.is_own());
                if better && (trouble.is_own() || first.is_none()) {
                    first = Some(trouble);
                }
            }
        }
    }
    first.map_or(Ok(well), Err)
}

/// Adds to a system call's error what was done to which file.
pub trait Doing<T> {
    fn doing(self, what: &str, path: &Path) -> Outcome<T>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: &str, path: &Path) -> Outcome<T> {
        self.map_err(|error| Trouble::met(format!("cannot {what} {}: {error}", path.display())))
    }
}

#[test]
fn the_trouble_that_somebody_met_is_told() {
    let met = |text: &str| Err::<i32, _>(Trouble::met(text));
    let followed = || Err(Trouble::followed());
    assert_eq!(first_own([Ok(1), Ok(2)]), Ok(vec![1, 2]));
    assert_eq!(
        first_own([Ok(1), followed(), met("a"), met("b"), followed()]),
        Err(Trouble::met("a"))
    );
    assert_eq!(first_own([Ok(1), followed()]), Err(Trouble::followed()));
}
