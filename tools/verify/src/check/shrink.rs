//! Reduces a finding to few operations.
//!
//! A read may be left out: what cannot happen without it cannot happen with it. A change may not, or reads of it would look
//! invented: it is made *optional* instead, happening any time or never, which only allows more. If the rest still cannot
//! happen, that proves the finding without it. (A value that no read sees any more is left out of a register altogether.)

use super::search::{Bound, SearchResult, Spec, Timed, quiet_moments, search, search_counting};

/// The bound of the search of one smaller history. Beyond it the smaller one is not taken.
const TRY: Bound = Bound {
    configurations: 2_000,
    total: 10_000,
};

/// The cost of all searches together, in configurations and acts: a second or two.
const COST_MAX: usize = 1_000_000;

pub struct Shrunk<S: Spec> {
    pub acts: Vec<Timed<S::Act>>,
    pub initial: S::State,
    /// Whether `initial` is not the state of the beginning.
    pub begins_later: bool,
}

struct Shrink<'a, S: Spec> {
    spec: &'a S,
    initial: S::State,
    acts: Vec<Timed<S::Act>>,
    optional: Vec<Timed<S::Act>>,
    cost: usize,
}

/// The fewest acts that cannot have happened, of those up to `fails`.
pub fn shrink<S: Spec>(
    spec: &S,
    initial: &S::State,
    acts: &[Timed<S::Act>],
    fails: usize,
) -> Shrunk<S>
where
    S::Act: Clone,
{
    let (end, mut from) = (enough(spec, initial, acts, fails), 0);
    let mut state = initial.clone();
    let mut before: Vec<Timed<S::Act>> = acts
        .iter()
        .filter(|act| act.start <= end)
        .cloned()
        .collect();
    before.sort_by_key(|act| act.start);
    // The last quiet moment that leaves enough to see how it came about.
    for (time, then) in quiet_moments(spec, initial.clone(), &before) {
        let at = before.partition_point(|act| act.start <= time);
        if before.len() - at < spec.worth_showing() {
            break;
        }
        (from, state) = (at, then);
    }
    let mut shrink = Shrink {
        spec,
        initial: state,
        acts: before.split_off(from),
        optional: Vec::new(),
        cost: 0,
    };
    shrink.run();
    Shrunk {
        acts: shrink.acts,
        initial: shrink.initial,
        begins_later: from > 0,
    }
}

/// Until when acts must be looked at: to the end of the one that fails, or, where a model knows something from later acts, to
/// the end of those that tell it.
fn enough<S: Spec>(spec: &S, initial: &S::State, acts: &[Timed<S::Act>], fails: usize) -> u64
where
    S::Act: Clone,
{
    let end = acts[fails].end.unwrap_or(u64::MAX);
    let contradicts = |end: u64| {
        let acts: Vec<_> = acts
            .iter()
            .filter(|act| act.start <= end)
            .cloned()
            .collect();
        let known = spec.known_by(acts.iter().map(|act| &act.act))?;
        let found = search(&known, initial.clone(), &acts, TRY);
        Some(matches!(found, SearchResult::Disagrees { .. }))
    };
    if contradicts(end).unwrap_or(true) {
        return end;
    }
    let mut ends: Vec<u64> = acts.iter().map(|act| act.end.unwrap_or(u64::MAX)).collect();
    ends.retain(|later| *later > end);
    ends.sort_unstable();
    let first = ends.partition_point(|end| contradicts(*end) == Some(false));
    ends.get(first).copied().unwrap_or(u64::MAX)
}

impl<S: Spec> Shrink<'_, S>
where
    S::Act: Clone,
{
    fn run(&mut self) {
        let mut chunk = self.acts.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            let mut smaller = false;
            while at < self.acts.len() && self.cost < COST_MAX {
                let to = (at + chunk).min(self.acts.len());
                match self.without(at, to) {
                    true => smaller = true,
                    false => at = to,
                }
            }
            match (chunk, smaller) {
                (1, false) => return,
                (1, true) => {}
                _ => chunk /= 2,
            }
            if self.cost >= COST_MAX {
                return;
            }
        }
    }

    /// Takes these acts away, if the rest still cannot have happened.
    fn without(&mut self, from: usize, to: usize) -> bool {
        let mut acts = self.acts.clone();
        let gone: Vec<Timed<S::Act>> = acts.drain(from..to).collect();
        let writes = gone.into_iter().filter(|act| !self.spec.reads(&act.act));
        let mut optional = self.optional.clone();
        optional.extend(writes.map(|act| Timed { end: None, ..act }));
        optional.retain(|write| {
            !self
                .spec
                .needless(&write.act, acts.iter().map(|act| &act.act))
        });
        let all: Vec<_> = acts.iter().chain(&optional).cloned().collect();
        // Knowledge from acts that are gone would make a contradiction that the remaining acts do not show.
        let known = self.spec.known_by(all.iter().map(|act| &act.act));
        let spec = known.as_ref().unwrap_or(self.spec);
        let (found, visited) = search_counting(spec, self.initial.clone(), &all, TRY);
        self.cost += visited + all.len();
        if !matches!(found, SearchResult::Disagrees { .. }) {
            return false;
        }
        (self.acts, self.optional) = (acts, optional);
        true
    }
}
