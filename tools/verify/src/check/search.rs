//! The search: is there an order of the operations, each between its begin and its end, that the model allows?
//!
//! Begins and ends are visited as time goes. Held is every *configuration* that may be: a state of the model, and which of the
//! operations that have begun and not ended have taken effect in it. An operation must have taken effect when it ends; only
//! then are those tried that are open, and only those that could matter to it (their masks meet, also through others).
//! Effects that no act needed yet are put off, which loses nothing: whatever they allow they allow later too. A read that fits is
//! taken at once, as it changes nothing. An act without an end stays open for ever and is never forced.
//!
//! The answer is exact, unless the bound is reached: then it is `Undecided`, and never a guess.

use super::Set;
use std::hash::Hash;

/// A part of a model: states, and what operations do to them.
pub trait Spec {
    type State: Clone + Eq + Hash;
    type Act;
    /// The state after, if the act can answer what it did in this state.
    fn step(&self, state: &Self::State, act: &Self::Act) -> Option<Self::State>;
    /// Another state that may be after, where there are two.
    fn or(&self, _state: &Self::State, _act: &Self::Act) -> Option<Self::State> {
        None
    }
    /// Whether it changes no state, ever.
    fn reads(&self, act: &Self::Act) -> bool;
    /// Acts whose masks do not meet can be exchanged.
    fn mask(&self, act: &Self::Act) -> u32;
    /// How many acts are worth looking at before the one that fails, when older ones can be summed up as a state.
    fn worth_showing(&self) -> usize {
        12
    }
    /// The model with the knowledge of these acts alone, for a model that knows something from all acts. None: it does not.
    fn known_by<'a>(&self, _acts: impl Iterator<Item = &'a Self::Act>) -> Option<Self>
    where
        Self: Sized,
        Self::Act: 'a,
    {
        None
    }
    /// Whether a change that may or may not happen can be forgotten, as none of these acts could need it.
    fn needless<'a>(
        &self,
        _change: &Self::Act,
        _others: impl Iterator<Item = &'a Self::Act>,
    ) -> bool
    where
        Self::Act: 'a,
    {
        false
    }
}

/// Something that takes effect at one moment of its interval.
#[derive(Clone, Debug)]
pub struct Timed<Act> {
    pub act: Act,
    pub start: u64,
    pub end: Option<u64>,
    /// Which record of the history it is (a part of).
    pub record: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchResult {
    Agrees,
    /// Up to the end of this act there is no order.
    Disagrees {
        act: usize,
    },
    /// The bound was reached at this act.
    Undecided {
        act: usize,
    },
}

/// Acts that are open at once.
pub const OPEN_MAX: usize = 128;

/// How much is tried before giving up.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Configurations visited for the end of one act. A few hundred suffice where eight processes fight; this many take a
    /// second.
    pub configurations: usize,
    /// And for all of them together.
    pub total: usize,
}

impl Default for Bound {
    fn default() -> Bound {
        Bound {
            configurations: 200_000,
            total: usize::MAX,
        }
    }
}

struct Configuration<State> {
    state: State,
    /// Which of the open acts have taken effect, by place.
    done: u128,
}

struct Search<'a, S: Spec> {
    spec: &'a S,
    acts: &'a [Timed<S::Act>],
    bound: Bound,
    /// The open acts, by place.
    open: Vec<Option<usize>>,
    reads: u128,
    writes: u128,
    now: Vec<Configuration<S::State>>,
    visited: usize,
}

pub fn search<S: Spec>(
    spec: &S,
    initial: S::State,
    acts: &[Timed<S::Act>],
    bound: Bound,
) -> SearchResult {
    search_counting(spec, initial, acts, bound).0
}

/// The same, with how many configurations were visited.
pub fn search_counting<S: Spec>(
    spec: &S,
    initial: S::State,
    acts: &[Timed<S::Act>],
    bound: Bound,
) -> (SearchResult, usize) {
    let mut search = Search::new(spec, initial, acts, bound);
    for event in events(acts) {
        if let Err(found) = search.step(event) {
            return (found, search.visited);
        }
    }
    (SearchResult::Agrees, search.visited)
}

/// Moments after which nothing is open and one state alone is possible, with that state, up to where the search ends.
pub fn quiet_moments<S: Spec>(
    spec: &S,
    initial: S::State,
    acts: &[Timed<S::Act>],
) -> Vec<(u64, S::State)> {
    let mut search = Search::new(spec, initial, acts, Bound::default());
    let mut moments = Vec::new();
    for event in events(acts) {
        if search.step(event).is_err() {
            break;
        }
        if let ([one], true) = (&*search.now, search.reads | search.writes == 0) {
            moments.push((event.0, one.state.clone()));
        }
    }
    moments
}

/// When, whether it ends, which act.
type Event = (u64, bool, usize);

/// Begins and ends as time goes. At one moment begins come first: what touches overlaps.
fn events<Act>(acts: &[Timed<Act>]) -> Vec<Event> {
    let mut events = Vec::with_capacity(acts.len() * 2);
    for (index, act) in acts.iter().enumerate() {
        events.push((act.start, false, index));
        events.extend(act.end.map(|end| (end.max(act.start), true, index)));
    }
    events.sort_unstable();
    events
}

impl<'a, S: Spec> Search<'a, S> {
    fn new(spec: &'a S, initial: S::State, acts: &'a [Timed<S::Act>], bound: Bound) -> Self {
        Search {
            spec,
            acts,
            bound,
            open: Vec::new(),
            reads: 0,
            writes: 0,
            now: vec![Configuration {
                state: initial,
                done: 0,
            }],
            visited: 0,
        }
    }

    fn step(&mut self, (_, ends, act): Event) -> Result<(), SearchResult> {
        match ends {
            false => self.begin(act),
            true => self.end(act),
        }
    }

    fn begin(&mut self, act: usize) -> Result<(), SearchResult> {
        let place = match self.open.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.open.len() < OPEN_MAX => {
                self.open.push(None);
                self.open.len() - 1
            }
            None => return Err(SearchResult::Undecided { act }),
        };
        self.open[place] = Some(act);
        let bit = 1 << place;
        if !self.spec.reads(&self.acts[act].act) {
            self.writes |= bit;
            return Ok(());
        }
        self.reads |= bit;
        for one in &mut self.now {
            if self.spec.step(&one.state, &self.acts[act].act).is_some() {
                one.done |= bit;
            }
        }
        Ok(())
    }

    fn end(&mut self, act: usize) -> Result<(), SearchResult> {
        let place = self.open.iter().position(|open| *open == Some(act));
        let place = place.expect("an act ends after its begin");
        let bit = 1 << place;
        if self.now.iter().any(|one| one.done & bit == 0) {
            self.force(place)?;
        } else {
            for one in &mut self.now {
                one.done &= !bit;
            }
        }
        self.open[place] = None;
        self.reads &= !bit;
        self.writes &= !bit;
        match self.now.is_empty() {
            true => Err(SearchResult::Disagrees { act }),
            false => Ok(()),
        }
    }

    /// Every configuration in which the act at this place has taken effect, that follows from those held.
    fn force(&mut self, place: usize) -> Result<(), SearchResult> {
        let bit: u128 = 1 << place;
        let matter = self.matter(place);
        let mut visited: Set<(S::State, u128)> = Set::default();
        let mut reached: Vec<Configuration<S::State>> = Vec::new();
        let mut known: Set<(S::State, u128)> = Set::default();
        let mut todo = std::mem::take(&mut self.now);
        let mut tried = 0;
        while let Some(one) = todo.pop() {
            if one.done & bit != 0 {
                let done = one.done & !bit;
                if known.insert((one.state.clone(), done)) {
                    reached.push(Configuration {
                        state: one.state,
                        done,
                    });
                }
                continue;
            }
            tried += 1;
            self.visited += 1;
            if tried > self.bound.configurations || self.visited > self.bound.total {
                let act = self.open[place].unwrap_or_default();
                return Err(SearchResult::Undecided { act });
            }
            for next in places(self.writes & !one.done & matter) {
                let act = self.act(next);
                let after = [
                    self.spec.step(&one.state, act),
                    self.spec.or(&one.state, act),
                ];
                for state in after.into_iter().flatten() {
                    let done = self.take_reads(&state, one.done | 1 << next);
                    if visited.insert((state.clone(), done)) {
                        todo.push(Configuration { state, done });
                    }
                }
            }
        }
        self.now = reached;
        Ok(())
    }

    /// The open reads that fit this state have taken effect too.
    fn take_reads(&self, state: &S::State, mut done: u128) -> u128 {
        for read in places(self.reads & !done) {
            if self.spec.step(state, self.act(read)).is_some() {
                done |= 1 << read;
            }
        }
        done
    }

    /// The open writes that may matter to the act at this place, itself among them.
    fn matter(&self, place: usize) -> u128 {
        let mut mask = self.spec.mask(self.act(place));
        let mut found: u128 = 0;
        loop {
            let before = found;
            for write in places(self.writes & !found) {
                let its = self.spec.mask(self.act(write));
                if its & mask != 0 {
                    mask |= its;
                    found |= 1 << write;
                }
            }
            if found == before {
                return found;
            }
        }
    }

    fn act(&self, place: usize) -> &S::Act {
        let index = self.open[place].expect("the place of an open act");
        &self.acts[index].act
    }
}

fn places(mut bits: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            place
        })
    })
}
