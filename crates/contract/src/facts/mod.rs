//! The facts. Each is a function that tries it on a kernel; its name says what is so.

mod attributes;
mod epoch;
mod locks;
mod names;
mod pages;
mod writes;

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::fact::{Fact, Finding, Otherwise, Rule, Tried, Weight, is};
use crate::linux::{Linux, Tree, Word};
use crate::probe::{Gate, Probe};
use gupfs_fuse::OpenedFlags;

/// No fact needs so long, unless something waits for ever.
const TOO_LONG: Duration = Duration::from_secs(10);

/// How often a fact is tried that does not stand.
const TRIES: usize = 3;

/// Long enough to see that something waits.
const A_WHILE: Duration = Duration::from_millis(50);

/// More requests than any fact makes.
const ALL_OF_THEM: usize = 100;

const CACHED: OpenedFlags = OpenedFlags::empty();
const DIRECT: OpenedFlags = OpenedFlags::DIRECT_IO;

/// The node of the file that most facts are about.
const FILE: u64 = 9;

fn one_file(flags: OpenedFlags) -> Arc<Probe> {
    Arc::new(Probe::default().file(FILE, "file", flags))
}

/// What a program does and what happens meanwhile; the first that goes wrong ends both.
async fn both<T, E: Into<Otherwise>>(
    program: impl Future<Output = Result<T, E>>,
    meanwhile: impl Future<Output = Tried>,
) -> Result<T, Otherwise> {
    let program = async { program.await.map_err(E::into) };
    Ok(tokio::try_join!(program, meanwhile)?.0)
}

/// `program` asks for what `gate` holds back; `word`, said meanwhile, is over only when that is let go.
async fn word_waits<P, E: Into<Otherwise>>(
    tree: &impl Tree,
    word: Word,
    gate: &Gate,
    program: impl Future<Output = Result<P, E>>,
) -> Tried {
    let told = Cell::new(false);
    let telling = async {
        gate.reached(1).await?;
        tree.tell(word).await?;
        told.set(true);
        Ok::<(), Otherwise>(())
    };
    let meanwhile = async {
        gate.reached(1).await?;
        tokio::time::sleep(A_WHILE).await;
        is("told while it is held back", told.get(), false)?;
        gate.let_go(ALL_OF_THEM);
        Ok(())
    };
    both(both(program, meanwhile), telling).await?;
    is("told afterwards", told.get(), true)
}

macro_rules! facts {
    ($($rule:ident, $weight:ident: $room:ident::$fact:ident;)*) => {
        /// Every fact, in the order of the rules.
        pub const ALL: &[Fact] = &[$(
            Fact { rule: Rule::$rule, weight: Weight::$weight, name: stringify!($fact) },
        )*];

        async fn try_one<L: Linux>(linux: &L, name: &str) -> Tried {
            match name {
                $(stringify!($fact) => $room::$fact(linux).await,)*
                _ => Err(Otherwise::Untried("there is no such fact".into())),
            }
        }
    };
}

facts! {
    Features, CountedOn: pages::new_attributes_drop_the_pages_of_a_cached_file;
    Features, GuardedAgainst: attributes::with_a_write_back_cache_growth_elsewhere_is_not_seen;
    Features, GuardedAgainst: pages::explicit_invalidation_serves_the_pages_of_a_dead_server;
    Lifetimes, CountedOn: attributes::what_is_believed_for_no_time_is_asked_for_again;
    Lifetimes, CountedOn: attributes::what_is_believed_for_a_time_is_asked_for_after_it;
    Lifetimes, ForSharing: pages::pages_of_a_dead_server_are_not_served_after_their_lifetime;
    Lifetimes, GuardedAgainst: attributes::the_answer_to_a_link_brings_old_attributes_back;
    Lifetimes, GuardedAgainst: attributes::the_answer_to_a_create_brings_old_attributes_back;
    Invalidations, ForSharing: attributes::an_invalidation_makes_attributes_unknown;
    Invalidations, GuardedAgainst: names::an_invalidation_that_passes_a_lookup_is_lost;
    Names, ForSharing: names::an_invalidated_name_is_looked_up_again;
    Names, GuardedAgainst: names::that_a_name_is_absent_is_remembered;
    Names, ForSharing: epoch::a_new_epoch_waits_for_nobody_and_makes_names_old;
    Names, GuardedAgainst: epoch::a_listing_under_way_survives_a_new_epoch;
    Names, GuardedAgainst: epoch::a_new_epoch_unmounts_what_is_mounted_on_the_tree;
    Notifications, GuardedAgainst: names::an_invalidated_name_waits_for_a_create_in_its_directory;
    Notifications, GuardedAgainst: pages::invalidated_pages_wait_for_the_read_that_fills_them;
    Notifications, GuardedAgainst: pages::invalidated_pages_are_written_first_if_they_are_dirty;
    Notifications, ForSharing: pages::invalidated_attributes_wait_for_no_read;
    TwoDoors, ForPageCache: writes::a_write_past_the_page_cache_drops_the_pages_it_covers;
    TwoDoors, ForPageCache: writes::pages_that_are_filled_while_they_are_written_are_dropped_afterwards;
    TwoDoors, ForSharing: writes::an_open_for_the_page_cache_waits_for_no_later_write;
    TwoDoors, ForSharing: pages::only_a_read_past_the_page_cache_names_its_owner;
    TwoDoors, GuardedAgainst: pages::splice_fills_pages_whatever_the_file_is;
    TwoDoors, GuardedAgainst: pages::a_store_into_a_mapped_page_asks_nobody;
    TwoDoors, ForSharing: writes::writes_within_a_file_go_beside_each_other;
    TwoDoors, GuardedAgainst: writes::writes_that_extend_a_file_go_one_by_one;
    Appends, GuardedAgainst: writes::the_offset_of_an_append_may_be_old;
    Locks, ForSharing: locks::a_flock_is_given_back_at_the_release_of_its_file;
    Locks, ForSharing: locks::a_close_tells_whose_records_go;
}

/// Tries those of the facts that `which` wants, one after the other.
pub async fn try_all<L: Linux>(linux: &L, which: impl Fn(&Fact) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for fact in ALL.iter().filter(|fact| which(fact)) {
        findings.push(Finding::of(fact, try_again(linux, fact.name).await));
    }
    findings
}

/// What goes wrong once may be chance: a machine short of memory forgets, a slow one is late. What stands once stands; what
/// is otherwise must be so again.
async fn try_again<L: Linux>(linux: &L, name: &str) -> Tried {
    let mut tried = Ok(());
    for _ in 0..TRIES {
        let once = tokio::time::timeout(TOO_LONG, try_one(linux, name)).await;
        let waits = |_| Otherwise::Untried("something waits, or the machine is too slow".into());
        tried = once.map_err(waits).flatten();
        if tried.is_ok() {
            break;
        }
    }
    tried
}
