//! Random operations on the state machine and on the model: after each, both have returned the same and all attributes are equal;
//! at the end the records are consistent. A failing sequence is shrunk until it reads like a shell session.

use super::action::{action, callers};
use super::compare::ServerAndModel;
use proptest::prelude::*;
use proptest::sample::select;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_machine_matches_the_model(
        actions in prop::collection::vec((0usize..5, action()), 1..300),
        shards in select(vec![1u16, 2, 64]),
        cold_cache in any::<bool>(),
        replays in any::<bool>(),
    ) {
        let mut pair = ServerAndModel::new(shards, cold_cache, replays);
        for (i, (caller, action)) in actions.iter().enumerate() {
            pair.caller = callers()[*caller].clone();
            pair.run(action);
            if i % 50 == 49 {
                pair.compare();
            }
        }
        pair.compare();
    }
}
