//! What a user reads when it did not work, and the exit code.

use std::cmp::Ordering;
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
    /// A call does not come back from the kernel: exit 3.
    Hung,
    /// Somebody else's, who will tell.
    Followed,
}

/// The exit code of [`Trouble::hung`].
pub const HUNG: u8 = 3;

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

    /// A call has not come back, and nobody waits for it any longer: what is done next must not touch what it is about.
    pub fn hung(text: impl Into<String>) -> Trouble {
        Trouble {
            kind: Kind::Hung,
            text: text.into(),
        }
    }

    pub fn is_hung(&self) -> bool {
        self.kind == Kind::Hung
    }

    /// It stopped since another met trouble.
    pub fn followed() -> Trouble {
        Trouble {
            kind: Kind::Followed,
            text: "another worker met trouble".into(),
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Asked => 2,
            Kind::Met | Kind::Followed => 1,
            Kind::Hung => HUNG,
        }
    }

    /// The same, with where it happened.
    pub fn at(self, place: impl fmt::Display) -> Trouble {
        let lines = self.text.lines().map(|line| format!("{place}: {line}"));
        let text = match self.kind {
            // Each line is about another call.
            Kind::Hung => lines.collect::<Vec<_>>().join("\n"),
            _ => format!("{place}: {}", self.text),
        };
        Trouble { text, ..self }
    }

    /// Which of two is told: calls that hang, since that decides what may be done next, and all of them; else the first that
    /// somebody met.
    fn or(self, other: Trouble) -> Trouble {
        let rank = |trouble: &Trouble| match trouble.kind {
            Kind::Hung => 2,
            Kind::Asked | Kind::Met => 1,
            Kind::Followed => 0,
        };
        match rank(&self).cmp(&rank(&other)) {
            Ordering::Less => other,
            Ordering::Equal if self.is_hung() => {
                Trouble::hung(format!("{}\n{}", self.text, other.text))
            }
            Ordering::Equal | Ordering::Greater => self,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Trouble {}

/// What all came to, or their trouble: rather one that somebody met than one of those who stopped because of it.
pub fn first_own<T>(all: impl IntoIterator<Item = Outcome<T>>) -> Outcome<Vec<T>> {
    let (mut well, mut first) = (Vec::new(), None::<Trouble>);
    for outcome in all {
        match outcome {
            Ok(value) => well.push(value),
            Err(trouble) => {
                first = Some(match first {
                    None => trouble,
                    Some(first) => first.or(trouble),
                });
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
    let hung = |text: &str| Err(Trouble::hung(text));
    let both = first_own([met("a"), hung("b"), followed(), hung("c")]);
    let both = both.unwrap_err().at("x");
    assert_eq!(
        (both.exit_code(), both.to_string().as_str()),
        (HUNG, "x: b\nx: c")
    );
}
